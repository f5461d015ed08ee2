"""Deep layers with DT-Fixup on your own sentences: `python classify_csv.py sentences.csv model [LAYERS EPOCHS]`.

The CSV has the columns text and label; a tenth of its rows is kept apart to measure on. Ctrl-C saves and stops, the
same command with `--resume` goes on.
"""

import sys

from dtfixup.reading.answers import Classifier
from dtfixup.reading.classifier import train_classifier
from dtfixup.reading.presets import own_data

csv, folder, *size = [word for word in sys.argv[1:] if word != "--resume"]
layers, epochs = map(int, size or (12, 12))
run = train_classifier(csv, folder, own_data(layers, epochs), resume="--resume" in sys.argv)
if run.finished:
    print(f"accuracy on sentences it has not seen: {run.last['accuracy']:.1f} %")
    print(Classifier.load(folder).classify(["The soup was cold.", "We had a lovely evening."]))
