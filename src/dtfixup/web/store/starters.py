"""Questions to begin with, for each bundled database.

None of them is among the databases' own questions, which measure the model. The shipped model is sure of its answer to
each of them (`tests/web/store/test_starters.py`).
"""

from collections.abc import Mapping

STARTERS: Mapping[str, tuple[str, ...]] = {
    "bike_repair": (
        "How many repair jobs are there for each status?",
        "Which workshop has the highest monthly rent?",
        "What is the average hourly wage of the mechanics?",
        "List the names of the customers from Utrecht.",
    ),
    "clinic": (
        "How many patients are there in each city?",
        "What is the average fee of the appointments?",
        "How many doctors work in Neurology?",
        "How many departments are there in each building?",
    ),
    "community_garden": (
        "How many plots are there for each soil type?",
        "Which plot has the highest yearly rent?",
        "What is the average annual fee for each group?",
        "Which gardeners are in the Families group?",
    ),
    "film_festival": (
        "How many films are there in each genre?",
        "Which venue has the most seats?",
        "Which director has the most films?",
        "What is the average runtime of the films?",
    ),
    "public_library": (
        "How many books are there in each genre?",
        "Which authors are Japanese?",
        "Which branch has the largest floor area?",
        "Which books were published before 1900?",
    ),
    "river_ferry": (
        "How many piers are there in each country?",
        "Which vessel has the highest capacity?",
        "Which piers are in Vienna?",
        "How many vessels have their home pier in Austria?",
    ),
}
