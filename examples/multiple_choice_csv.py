"""Train deep layers with DT-Fixup on your own questions: `python multiple_choice_csv.py own.csv model [LAYERS EPOCHS]`.

The CSV file has the columns context, question, answer_0, answer_1 and so on, and label, the number of the right answer.
A tenth of its rows is held out to measure on. Ctrl-C saves and stops; the same command with `--resume` continues.
"""

import sys

from dtfixup.reading import Reader, own_data, train_reading

csv, folder, *size = [word for word in sys.argv[1:] if word != "--resume"]
run = train_reading(own_data(*map(int, size)), csv, folder, resume="--resume" in sys.argv)
if run.metrics:  # empty after a stop
    print(f"accuracy on questions it has not seen: {run.metrics['held_out_accuracy']:.1f} %")
    print(Reader.load(folder).answer("All birds lay eggs. Hens are birds.", "What follows?", ["Hens lay eggs.", "No."]))
