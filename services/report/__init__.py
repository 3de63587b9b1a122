"""Reports on the history: one document, shown as text, Markdown, CSV, JSON or one page of HTML."""
