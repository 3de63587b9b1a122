"""Knows the model servers behind the proxy: what each is, whether it answers, when it became another."""
