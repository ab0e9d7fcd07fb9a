"""What can be seen of a run, as values and as pages that need no other file.

    page.py          the frame of every page: one style, one script, a policy that lets nothing else in
    statistics.py    TFDV's statistics of a feature as plain values
    data.py          the rows of a run: splits, labels, lengths, anomalies; data_page.py shows them
    results.py       what the Evaluator found, with intervals; results_page.py shows it
    cards.py         what is read first: the verdict, and the metrics that it hangs on
    charts.py        slices, classes, labels and baselines as tables whose rows end in a plot
    drawing.py       where bars, whiskers and ticks stand in a plot
    words.py         numbers in words

Nothing here needs TensorFlow.
"""
