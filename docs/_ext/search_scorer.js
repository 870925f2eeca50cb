// Weights of Sphinx's search, with what users look up before what they read once.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    if (page === "docs/configuration") return score + 30;
    if (page === "CHANGELOG" || page.startsWith("docs/results/")) return score - 30;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
