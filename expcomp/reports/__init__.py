"""Reports: tables and figures of runs, comparisons and compiles as Markdown, HTML and JSON."""
