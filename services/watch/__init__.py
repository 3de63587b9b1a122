"""What model servers count of themselves: read, made into rates, sampled on a schedule."""
