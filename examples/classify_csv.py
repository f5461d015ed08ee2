"""Train deep layers with DT-Fixup on your own sentences: `python classify_csv.py sentences.csv model [LAYERS EPOCHS]`.

The CSV file has the columns text and label. A tenth of its rows is held out to measure on. Ctrl-C saves and stops; the
same command with `--resume` continues.
"""

import sys

from dtfixup.reading import Classifier, own_data, train_classifier

csv, folder, *size = [word for word in sys.argv[1:] if word != "--resume"]
run = train_classifier(csv, folder, own_data(*map(int, size)), resume="--resume" in sys.argv)
if run.finished:
    print(f"accuracy on sentences it has not seen: {run.last['accuracy']:.1f} %")
    print(Classifier.load(folder).classify(["The soup was cold.", "We had a lovely evening."]))
