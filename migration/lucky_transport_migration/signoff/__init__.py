"""The page to sign: what evidence, stages and gate show of every method that is on its way.

`collect` looks, once, and returns JSON values; `page` makes sentences and tables of them, in HTML and Markdown.
"""
