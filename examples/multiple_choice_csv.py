"""Deep layers with DT-Fixup on your own questions: `python multiple_choice_csv.py questions.csv model [LAYERS EPOCHS]`.

The CSV has the columns context, question, answer_0, answer_1 and so on, and label, the number of the right answer; a
tenth of its rows is kept apart to measure on.
"""

import sys

from dtfixup.experiments.reading_run import train_reading
from dtfixup.reading.answers import Reader
from dtfixup.reading.presets import own_data

csv, folder, *size = sys.argv[1:]
layers, epochs = map(int, size or (12, 12))
run = train_reading(own_data(layers, epochs), csv, folder)
print(f"accuracy on questions it has not seen: {run.metrics['held_out_accuracy']:.1f} %")
print(Reader.load(folder).answer("All birds lay eggs. A hen is a bird.", "What follows?", ["A hen lays eggs.", "No."]))
