"""The nouns, without a host: policies, plans, launches, results, errors. Needs only the standard library."""
