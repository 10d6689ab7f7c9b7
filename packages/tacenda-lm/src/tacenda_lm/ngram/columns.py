"""Numbers that describe an n-gram table for look-ups, compiled or not."""

MAX_LOG_PROB = 1e-3  # what is higher is not above 0 due to rounding
MAX_CODED_LOG_PROB = 1.0  # the same where log-probabilities are codes of few bits

BLOCK = 64  # n-grams whose near places are distances from one number

#: Columns of ``shape`` (orders, columns): the number of n-grams, the bits of a record, the bit where records begin; the
#: bits of the fields word, log_prob, backoff and near; the words of the data where the blocks, the lists (FAR), the
#: values of back-offs (VALUES) and of log-probabilities (PROBS) begin, the number of lists, and that of VALUES.
SIZE, WIDTH, RECORDS, WORD, PROB, BACKOFF, NEAR, BLOCKS, FAR, LISTS, VALUES, PROBS, N_VALUES = (
    range(13)
)
