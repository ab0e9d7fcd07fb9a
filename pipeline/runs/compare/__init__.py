"""Runs beside each other: `bertline compare`.

`comparison.py` reads what is recorded and makes one value of it; `tables.py` shows that value in a terminal, `page.py` as a
page of HTML, and `Comparison.as_json` gives it to a program.
"""
