"""Deep layers with DT-Fixup on your own questions: `python multiple_choice_csv.py questions.csv model [LAYERS EPOCHS]`.

The CSV has the columns context, question, answer_0, answer_1 and so on, and label, the number of the right answer; a
tenth of its rows is kept apart to measure on. Ctrl-C saves and stops, the same command with `--resume` goes on.
"""

import sys

from dtfixup.reading.answers import Reader
from dtfixup.reading.presets import own_data
from dtfixup.reading.train import train_reading

csv, folder, *size = [word for word in sys.argv[1:] if word != "--resume"]
layers, epochs = map(int, size or (12, 12))
run = train_reading(own_data(layers, epochs), csv, folder, resume="--resume" in sys.argv)
if run.metrics:  # else it was stopped
    print(f"accuracy on questions it has not seen: {run.metrics['held_out_accuracy']:.1f} %")
    print(Reader.load(folder).answer("All birds lay eggs. Hens are birds.", "What follows?", ["Hens lay eggs.", "No."]))
