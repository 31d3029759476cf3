"""The search for the best composition of filter, crop, classifier, prompts and threshold, and what its choice is
worth.

The best of many looks better than it is, so nothing here judges a composition on prompts that chose it.
`compositions.py` lists what competes, `prompt_sums.py` turns verdicts into sums by prompt, `choosing.py` chooses
on some prompts and judges on the others, `ensembles.py` lets detectors vote, `ranks.py` says which ranks are open,
`findings.py` puts it into sentences, `files.py` and `figure.py` onto disk.
"""
