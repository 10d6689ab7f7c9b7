"""The picture: well-formed, every token escaped, as warm as surprising, readable on any screen."""

import re
import sys
from html.parser import HTMLParser
from types import ModuleType

import pytest
from spacy.tokens import Doc

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda_lm.spacy import heat_map, render

HOSTILE = ["<script>", "alert('x')", "</span>", '"onmouseover="x', "&amp;", "</style>", "\x00\x1b"]
VOID = {"meta", "br"}


class Page(HTMLParser):
    """What a browser would see: elements that are open, tokens, text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.names, self.tokens, self.text = [], [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "span" and "title" in dict(attrs):
            self.tokens.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
        if self.open and self.open[-1] == "span" and self.tokens:
            self.tokens[-1][1] += data


def heat(token):
    return float(re.fullmatch(r"--heat:([\d.]+)", token[0]["style"])[1])


def test_every_token_is_there_with_its_figures_in_the_order_of_the_text(pipeline):
    doc = pipeline()("the cat  saw\na zebra .")
    page = Page(render(doc))
    words = [token for token in doc if not token.is_space]
    assert [text for _, text in page.tokens] == [*(token.text for token in words), "¶"]
    for token, (attributes, _) in zip(words, page.tokens, strict=False):
        about = f"{token.text}: {token._.surprisal:.2f} bits, log p {token._.lm_logprob:.3f}"
        assert attributes["title"].startswith(about)
        assert ("outside the vocabulary" in attributes["title"]) == token._.lm_oov
        assert (attributes.get("class") == "oov") == token._.lm_oov
    assert "the cat  saw\na zebra .¶" in page.text
    assert f"perplexity {doc._.perplexity:,.1f}" in page.text


def test_words_outside_the_vocabulary_are_explained(pipeline, model):
    """What they count as, and where they are colder than they should be."""
    text = "the zebra saw"
    spelled, cheap = (Page(render(pipeline(unknown=way)(text))) for way in ("spelling", "class"))
    without = model.perplexity([text]).without_oov
    for page in (spelled, cheap):
        assert "these counted as <unk>" in page.text
        assert f"{without:,.1f} without them" in page.text
    assert "bits per character" in spelled.text
    assert "bits per character" not in cheap.text
    assert "too cold" in cheap.text
    assert "too cold" not in spelled.text
    assert "of all such words together" in cheap.tokens[1][0]["title"]
    assert heat(cheap.tokens[1]) < heat(spelled.tokens[1])
    assert "<unk>" not in Page(render(pipeline()("the cat"))).text
    alone = Page(render(pipeline(eos=False)("zebra"))).text
    assert "these counted as <unk>" in alone
    assert "without them" not in alone


def test_warmth_follows_surprisal_up_to_the_maximum(pipeline):
    doc = pipeline()("the cat zebra")
    bits = [token._.surprisal for token in doc]
    cool = Page(render(doc, max_bits=100)).tokens
    assert [heat(token) for token in cool][:3] == pytest.approx([b / 100 for b in bits], abs=1e-3)
    assert {heat(token) for token in Page(render(doc, max_bits=0.01)).tokens} == {1.0}


def test_hostile_tokens_stay_text(pipeline):
    nlp = pipeline()
    doc = nlp.get_pipe("lm_scorer")(Doc(nlp.vocab, words=HOSTILE))
    page = Page(render(doc, page=True, title="<script>1</script>"))
    assert "script" not in page.names
    assert page.names.count("style") == 2
    shown = [text for _, text in page.tokens][: len(HOSTILE)]
    assert shown == [*HOSTILE[:-1], "\ufffd\ufffd"]
    assert all(set(attributes) <= {"class", "style", "title"} for attributes, _ in page.tokens)
    assert "<script>1</script>" in page.text


def test_page_is_a_whole_document_that_loads_nothing(pipeline):
    doc = pipeline()("the cat saw")
    html = render([doc, doc], page=True)
    assert html.startswith("<!DOCTYPE html>")
    assert Page(html).names.count("p") == 4
    assert not re.search(r"https?:|src=|url\(|@import", html)


def test_every_sentence_end_is_shown_after_its_last_word(pipeline):
    doc = pipeline(sentences=True)("the cat saw . a dog ate .  ")
    assert Page(render(doc)).text.count("saw .¶ a dog ate .¶") == 1
    with doc.retokenize() as tokens:
        tokens.merge(doc[3:5])
    assert Page(render(doc)).text.count("saw . a¶ dog ate .¶") == 1
    unended = pipeline(eos=False)("the cat .")
    assert [text for _, text in Page(render(unended)).tokens] == ["the", "cat", "."]


def test_ranks_and_entropies_are_in_the_figures_where_they_were_found(pipeline):
    doc = pipeline(rank=True, entropy=True)("the cat")
    doc.user_data["._.", "lm_scores", None, None]["rank"][1] = 12345
    attributes, _ = Page(render(doc)).tokens[1]
    assert "12,345 more probable words" in attributes["title"]
    assert f"{doc[1]._.lm_entropy:.4g} bits of entropy" in attributes["title"]


def test_prefix_chooses_whose_scores_are_shown(pipeline):
    doc = pipeline(prefix="seen_")("the cat")
    assert len(Page(render(doc, prefix="seen_")).tokens) == 3
    with pytest.raises(NotFittedError, match="no scores with the prefix ''"):
        render(doc)


@pytest.mark.parametrize("text", ["", " \n "])
def test_document_without_words_is_a_picture_without_tokens(pipeline, text):
    page = Page(render(pipeline()(text), page=True))
    assert page.tokens == []
    assert "no words" in page.text


@pytest.mark.parametrize("bits", [0, -1, float("nan"), float("inf"), "16", None])
def test_scale_without_length_is_refused(pipeline, bits):
    with pytest.raises(ConfigurationError, match="max_bits"):
        render(pipeline()("the"), max_bits=bits)


PARTS = (lambda doc: doc[:2], lambda doc: [doc, doc[:2]], lambda doc: doc.text, lambda doc: doc[0])


@pytest.mark.parametrize("part", PARTS)
def test_only_documents_are_drawn_and_tabulated(pipeline, part):
    nlp = pipeline()
    given = part(nlp("the cat saw"))
    for use in (render, nlp.get_pipe("lm_scorer").surprisal_table):
        with pytest.raises(ConfigurationError, match="not a document of spaCy: give the Doc"):
            use(given)


def test_line_ends_of_windows_are_line_ends(pipeline):
    text = Page(render(pipeline()("the cat\r\nsaw\r\n"))).text
    assert "the cat\nsaw" in text
    assert "\ufffd" not in text


def test_notebook_shows_it_instead(pipeline, monkeypatch):
    notebook, shown = ModuleType("IPython.display"), []
    notebook.HTML, notebook.display = str, shown.append
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    doc = pipeline()("the cat")
    assert render(doc, jupyter=True) is None
    assert shown == [render(doc, jupyter=False)]


def luminance(colour):
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
@pytest.mark.parametrize("warmth", [0.0, 0.5, 1.0])
def test_text_is_readable_on_every_ground(theme, warmth):
    """WCAG asks for a contrast of 4.5 between text and ground."""
    ink, paper = getattr(heat_map, theme)
    over, opacity = heat_map.HEAT, warmth * heat_map.STRENGTH
    ground = [opacity * a + (1 - opacity) * b for a, b in zip(over, paper, strict=True)]
    dark, light = sorted([luminance(ink), luminance(ground)])
    assert (light + 0.05) / (dark + 0.05) >= 4.5
