"""All that exists only for the paper's tables and figures."""
