"""Columns of the description of an n-gram table, and the numbers that both kinds of look-up share."""

BLOCK = 64  # n-grams that share the number from which their near places count

#: Columns of ``shape``: of each order the n-grams, the bits of a record, the bit where records begin, bits of fields,
#: and the words of the data where the other sections begin.
SIZE, WIDTH, RECORDS, WORD, PROB, BACKOFF, NEAR, BLOCKS, FAR, LISTS, VALUES, PROBS, N_VALUES = (
    range(13)
)
