"""N-gram language models. Constants here describe an n-gram table for look-ups, compiled or not."""

MAX_LOG_PROB = 1e-3  # rounding lifts a log-probability above 0 by less; more is damage
MAX_CODED_LOG_PROB = 1.0  # the same where log-probabilities are codes of few bits

# bits of numbers that are stored themselves and not as codes: a float32, without its sign if it is never positive
EXACT_PROB, EXACT_BACKOFF = 31, 32

BLOCK = 64  # n-grams whose near places are distances from one number

#: Columns of ``shape`` (orders, columns), in their order: the number of n-grams, the bits of a record and the bit where
#: records begin; the bits of the fields word, log-probability, back-off and near place; the 64-bit words of the data
#: where the blocks begin and, at FAR, lists of the places of blocks that are not near each other; LISTS, the number of
#: these lists; the 64-bit words where the values of back-offs and of log-probabilities begin; the number of the former.
SIZE, WIDTH, RECORDS, WORD, PROB, BACKOFF, NEAR, BLOCKS, FAR, LISTS, VALUES, PROBS, N_VALUES = (
    range(13)
)
