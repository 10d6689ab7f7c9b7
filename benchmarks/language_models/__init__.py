"""Language models: perplexity and speed beside what people score with today."""
