"""Evidence anyone can reproduce: five scenarios, run through the proxy and, paired, directly to the backend.

`scenarios.toml` says what is sent, `conversation` turns it into requests, `exchange` sends one and reads what
came back, `runner` puts them in order, `results` and `markdown` say what was measured in that run and nothing
else.
"""
