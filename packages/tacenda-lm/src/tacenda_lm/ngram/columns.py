"""Columns of the description of an n-gram table that look-ups use, compiled or not."""

BLOCK = 64  # n-grams whose near places are distances from one number

#: Columns of ``shape`` (orders, columns): the number of n-grams, the bits of a record, the bit where records begin; the
#: bits of the fields word, log_prob, backoff and near; the words of the data where the blocks, the lists (FAR), the
#: values of back-offs (VALUES) and of log-probabilities (PROBS) begin, the number of lists, and that of VALUES.
SIZE, WIDTH, RECORDS, WORD, PROB, BACKOFF, NEAR, BLOCKS, FAR, LISTS, VALUES, PROBS, N_VALUES = (
    range(13)
)
