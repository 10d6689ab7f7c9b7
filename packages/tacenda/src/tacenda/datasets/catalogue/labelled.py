"""Labelled text: chunks, named entities, gold trees."""

from tacenda.datasets.catalogue.common import GITHUB, PENN, compressed
from tacenda.datasets.registry import MIB, DatasetSpec, Download

_NLTK = f"{GITHUB}/nltk/nltk_data/gh-pages/packages/corpora"
_WNUT = f"{GITHUB}/leondz/emerging_entities_17/master"

CONLL_2000 = DatasetSpec(
    name="conll2000",
    title="CoNLL-2000 chunking: Wall Street Journal text, parts of speech and chunks",
    licence="LDC; shared task, research",
    licence_text=PENN,
    homepage="https://www.clips.uantwerpen.be/conll2000/chunking/",
    folders=("tagging/conll2000", "conll2000", "corpora/conll2000"),
    files={"train": compressed("train.txt"), "test": compressed("test.txt")},
    downloads=(
        Download(
            urls=(f"{_NLTK}/conll2000.zip",),
            filename="conll2000.zip",
            size=756_607,
            hash="md5:9529b285edd5fe47271da69df1052301",
            unpack=True,
            max_bytes=16 * MIB,
        ),
    ),
)

CONLL_2003 = DatasetSpec(
    name="conll2003",
    title="CoNLL-2003 named entities, English (Reuters)",
    licence="NIST Reuters agreement",
    licence_text=(
        "The text is of the Reuters corpus, licensed by NIST for research under an agreement each "
        "organisation signs; do not pass it on."
    ),
    homepage="https://www.clips.uantwerpen.be/conll2003/ner/",
    folders=("tagging/conll2003", "conll2003"),
    files={
        "train": compressed("eng.train"),
        "dev": compressed("eng.testa"),
        "test": compressed("eng.testb"),
    },
    obtain=(
        "obtain the Reuters corpus from NIST (trec.nist.gov/data/reuters/reuters.html), build "
        "eng.train, eng.testa and eng.testb with the task's scripts (see its home page), and put "
        "them into TACENDA_DATA/conll2003"
    ),
)

WNUT_17 = DatasetSpec(
    name="wnut17",
    title="WNUT-17: emerging and rare named entities in English web text",
    licence="CC BY 4.0",
    licence_text="Creative Commons Attribution 4.0; cite Derczynski et al. 2017.",
    homepage="https://github.com/leondz/emerging_entities_17",
    folders=("tagging/wnut17", "emerging_entities_17*"),
    files={
        "train": ("wnut17train.conll",),
        "dev": ("emerging.dev.conll",),
        "test": ("emerging.test.annotated",),
    },
    downloads=tuple(
        Download(urls=(f"{_WNUT}/{file}",), filename=file, size=size, hash=f"sha256:{digest}")
        for file, size, digest in (
            (
                "wnut17train.conll",
                493_781,
                "731820e13f71af324c6b55a1575ec2ce59fbaa2a0806f8f0400b98d56cd6a7a5",
            ),
            (
                "emerging.dev.conll",
                114_749,
                "e053b752b8155113ca66e7db08af5f2f5f43ab993694e4774f1ec5bad42312d8",
            ),
            (
                "emerging.test.annotated",
                192_425,
                "2aa79b764e56ec9264a1b30fdd9b70195bd00ff400b62edd8f399d5f13c178f0",
            ),
        )
    ),
)

TREEBANK_SAMPLE = DatasetSpec(
    name="treebank-sample",
    title="Penn Treebank sample of NLTK: 3,914 Wall Street Journal sentences with gold trees",
    licence="LDC sample, non-commercial",
    licence_text=(
        "A fragment of the Penn Treebank, (C) LDC 1995, made available by NLTK under fair use for "
        "the purposes of illustrating its tools. For non-commercial use only."
    ),
    homepage="https://www.nltk.org/nltk_data/",
    folders=("tagging/treebank-sample", "corpora"),
    files={"trees": ("treebank.zip", "treebank")},
    downloads=(
        Download(
            urls=(f"{_NLTK}/treebank.zip",),
            filename="treebank.zip",
            size=1_740_034,
            hash="sha256:9da92d76c3666cfb6cddeaed0f7e86b344cce0f0928a286d439e555f19c37399",
        ),
    ),
)

LABELLED = [CONLL_2000, CONLL_2003, WNUT_17, TREEBANK_SAMPLE]
