"""Names why an engine reused less than it could: the text, the timeline, or the engine itself. Pure."""
