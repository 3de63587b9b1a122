"""What cloud models cost, and what prompt caching saved: price table and arithmetic, both pure."""
