// Guides come before results and the reference. The other numbers are those of Sphinx.
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) =>
    docname.startsWith("api/") ? score - 40 : docname.startsWith("results") ? score - 20 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
