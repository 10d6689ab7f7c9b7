"""The datasets that the core itself registers: those that its examples and benchmarks measure on.

No data are passed on here: an entry is an official address, the terms, and the names of files. Hashes are those the
owners publish (GroupLens, NLTK), or on which several sources agree, or of files that were compared with the official
ones. Where there is none, `fetch` records the hash of what it received.
"""

from tacenda.datasets.registry import MIB, DatasetSpec, Download

_GITHUB = "https://raw.githubusercontent.com"

_PENN = (
    "Derived from the Penn Treebank (Linguistic Data Consortium, LDC99T42), whose text and "
    "annotation are licensed by the LDC. This part is circulated for research; do not pass it on."
)


def _compressed(*names: str) -> tuple[str, ...]:
    """Each name, and each name compressed."""
    return tuple(name + suffix for name in names for suffix in ("", ".xz"))


_GROUPLENS = (
    "GroupLens research licence. Free for research; the user must acknowledge the use in "
    "publications (Harper and Konstan 2015), may not redistribute the data without permission, "
    "may not use it commercially without permission, and may not imply endorsement by the "
    "University of Minnesota."
)

_ML_FOLDS = ("u1", "u2", "u3", "u4", "u5", "ua", "ub")

ML_100K = DatasetSpec(
    name="ml-100k",
    title="MovieLens 100K: 100,000 ratings of 1,682 films by 943 users",
    licence="GroupLens research licence",
    licence_text=_GROUPLENS,
    homepage="https://grouplens.org/datasets/movielens/100k/",
    folders=("ratings/ml-100k", "ml-100k"),
    files={
        "ratings": ("u.data",),
        "items": ("u.item",),
        "users": ("u.user",),
        **{f"{fold}.base": (f"{fold}.base",) for fold in _ML_FOLDS},
        **{f"{fold}.test": (f"{fold}.test",) for fold in _ML_FOLDS},
    },
    optional=frozenset(
        {"items", "users"} | {f"{fold}.{part}" for fold in _ML_FOLDS for part in ("base", "test")}
    ),
    downloads=(
        Download(
            urls=("https://files.grouplens.org/datasets/movielens/ml-100k.zip",),
            filename="ml-100k.zip",
            size=4_924_029,
            hash="md5:0e33842e24a9c977be4e0107933c0723",
            unpack=True,
            max_bytes=64 * MIB,
        ),
    ),
)

ML_1M = DatasetSpec(
    name="ml-1m",
    title="MovieLens 1M: 1,000,209 ratings of 3,706 films by 6,040 users",
    licence="GroupLens research licence",
    licence_text=_GROUPLENS,
    homepage="https://grouplens.org/datasets/movielens/1m/",
    folders=("ratings/ml-1m", "ml-1m"),
    files={
        "ratings": ("ratings.dat", *_compressed("ratings-no-time.tsv")),
        "items": ("movies.dat",),
        "users": ("users.dat",),
    },
    optional=frozenset({"items", "users"}),
    downloads=(
        Download(
            urls=("https://files.grouplens.org/datasets/movielens/ml-1m.zip",),
            filename="ml-1m.zip",
            size=5_917_549,
            hash="md5:c4d9eecfca2ab87c1945afe126590906",
            unpack=True,
            max_bytes=128 * MIB,
        ),
    ),
)

PTB = DatasetSpec(
    name="ptb",
    title="Penn Treebank text for language modelling, as Mikolov prepared it",
    licence="LDC; circulated for research",
    licence_text=_PENN,
    homepage="http://www.fit.vutbr.cz/~imikolov/rnnlm/",
    folders=("lm/ptb", "ptb", "simple-examples/data"),
    files={
        "train": _compressed("ptb.train.txt"),
        "dev": _compressed("ptb.valid.txt"),
        "test": _compressed("ptb.test.txt"),
    },
    downloads=(
        Download(
            urls=("http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",),
            filename="simple-examples.tgz",
            size=34_869_662,
            hash="md5:30177ea32e27c525793142b6bf2c8e2d",
            unpack=True,
            members=("simple-examples/data/ptb.*.txt",),
        ),
    ),
)

WIKITEXT_2 = DatasetSpec(
    name="wikitext-2",
    title="WikiText-2: tokenised good and featured Wikipedia articles, 2.1M words",
    licence="CC BY-SA 3.0",
    licence_text="Creative Commons Attribution-ShareAlike 3.0 (text of Wikipedia).",
    homepage="https://wikitext.smerity.com/",
    folders=("lm/wikitext-2", "wikitext-2"),
    files={
        "train": _compressed("wiki.train.tokens", "train.txt"),
        "dev": _compressed("wiki.valid.tokens", "valid.txt"),
        "test": _compressed("wiki.test.tokens", "test.txt"),
    },
    downloads=(
        Download(
            urls=(
                "https://wikitext.smerity.com/wikitext-2-v1.zip",
                "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip",
            ),
            filename="wikitext-2-v1.zip",
            size=4_475_746,
            hash="sha256:92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
            unpack=True,
            max_bytes=64 * MIB,
        ),
    ),
)

WIKIPEDIA = DatasetSpec(
    name="wikipedia-good-articles",
    title="English Wikipedia's good and featured articles, running text, 26M tokens",
    licence="CC BY-SA 3.0",
    licence_text="Creative Commons Attribution-ShareAlike 3.0 (text of Wikipedia).",
    homepage="https://dumps.wikimedia.org/",
    folders=("lm/wikipedia-good-articles",),
    files={
        "train": _compressed("train.txt"),
        "dev": _compressed("dev.txt"),
        "test": _compressed("test.txt"),
    },
    obtain=(
        "extract the articles of a Wikipedia dump as text (WikiExtractor does), one paragraph a "
        "line, into train.txt, dev.txt and test.txt in TACENDA_DATA/wikipedia-good-articles"
    ),
)

NOVELS = DatasetSpec(
    name="english-novels",
    title="100 English novels, 1839-1930, 14M words",
    licence="public domain",
    licence_text="The texts are in the public domain (Computational Stylistics Group).",
    homepage="https://github.com/computationalstylistics/100_english_novels",
    folders=("lm/english-novels", "100_english_novels*"),
    files={"novels": ("corpus", "english-novels.tar.xz")},
    downloads=(
        Download(
            urls=(
                "https://github.com/computationalstylistics/100_english_novels"
                "/archive/refs/heads/master.zip",
            ),
            filename="100_english_novels.zip",
            confirmed=False,
            unpack=True,
            members=("*/corpus/*.txt",),
        ),
    ),
)

_STORIES = f"{_GITHUB}/languageMIT/naturalstories/master"

NATURAL_STORIES = DatasetSpec(
    name="natural-stories",
    title="Natural Stories: mean self-paced reading times of 10,256 words of ten stories",
    licence="CC BY-NC-SA 4.0",
    licence_text=(
        "Creative Commons Attribution-NonCommercial-ShareAlike 4.0; cite Futrell et al. 2021."
    ),
    homepage="https://github.com/languageMIT/naturalstories",
    folders=("reading/natural-stories", "natural-stories"),
    files={
        "stories": ("all_stories.tok",),
        "times": ("processed_wordinfo.tsv",),
        "gpt3": ("all_stories_gpt3.csv",),
        "unigrams": ("freqs-1.tsv",),
        "bigrams": ("freqs-2.tsv",),
        "trigrams": ("freqs-3.tsv",),
    },
    downloads=tuple(
        Download(
            urls=(f"{_STORIES}/{path}",),
            filename=path.rpartition("/")[2],
            size=size,
            hash=f"sha256:{digest}",
            confirmed=False,
        )
        for path, size, digest in (
            (
                "naturalstories_RTS/all_stories.tok",
                119_005,
                "0e4e9bd4708aaa01d8bea342696bb83cedff679c09184545483f6f3f4ba8aca3",
            ),
            (
                "naturalstories_RTS/processed_wordinfo.tsv",
                901_515,
                "047d2a0b84eff99d90535d1517f7fa7d466b81fbd60e990f2f08caac04d8aa56",
            ),
            (
                "probs/all_stories_gpt3.csv",
                1_111_744,
                "6ccee02c20a688d5f7e69a023025d725e8fb06d87e2c7f997b399384c200a0ad",
            ),
            (
                "freqs/freqs-1.tsv",
                971_517,
                "dfe87aa455e43226eb7f79faa6e5d9926446c3d8346014dd75837f39c3f19add",
            ),
            (
                "freqs/freqs-2.tsv",
                1_117_370,
                "f19bd5b12f2c01b39b9485c53ce4e988334d93224f24fd5ef802d68e7b77e6f7",
            ),
            (
                "freqs/freqs-3.tsv",
                926_820,
                "a908b07ff44665c4b3f2276767cfa4d029bd6f4fe69ef1c33dacd034ce737742",
            ),
        )
    ),
)

ALASTALO = DatasetSpec(
    name="alastalon-salissa",
    title="Volter Kilpi, Alastalon salissa (1933), a Finnish novel (0460.txt is in ISO 8859-1)",
    licence="public domain in the EU",
    licence_text="In the public domain in the European Union (Project Lonnrot, e-book 460).",
    homepage="http://www.lonnrot.net/",
    folders=("finnish",),
    files={"text": ("alastalon_salissa.txt", "0460.txt")},
    downloads=(
        Download(
            urls=("http://www.lonnrot.net/kirjat/0460.zip",),
            filename="0460.zip",
            unpack=True,
            max_bytes=16 * MIB,
        ),
    ),
)

_NLTK = f"{_GITHUB}/nltk/nltk_data/gh-pages/packages/corpora"
_WNUT = f"{_GITHUB}/leondz/emerging_entities_17/master"

CONLL_2000 = DatasetSpec(
    name="conll2000",
    title="CoNLL-2000 chunking: Wall Street Journal text, parts of speech and chunks",
    licence="LDC; shared task, research",
    licence_text=_PENN,
    homepage="https://www.clips.uantwerpen.be/conll2000/chunking/",
    folders=("tagging/conll2000", "conll2000", "corpora/conll2000"),
    files={"train": _compressed("train.txt"), "test": _compressed("test.txt")},
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
        "train": _compressed("eng.train"),
        "dev": _compressed("eng.testa"),
        "test": _compressed("eng.testb"),
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

_WORD_SIM = (
    f"{_GITHUB}/mfaruqui/eval-word-vectors/94b3dd9fdbac7ed08dbee7179cd5ee464acf0594/data/word-sim"
)

WORDSIM = DatasetSpec(
    name="wordsim",
    title="Word similarity: WordSim-353 (all, similarity, relatedness), Stanford Rare Words",
    licence="research use",
    licence_text=(
        "For research. WordSim-353: Finkelstein et al. 2002, split by Agirre et al. 2009. Rare "
        "Words: Luong et al. 2013. Collected by Faruqui and Dyer 2014."
    ),
    homepage="https://github.com/mfaruqui/eval-word-vectors",
    folders=("wordsim", "eval-word-vectors*/data/word-sim"),
    files={
        "ws353": ("EN-WS-353-ALL.txt", "wordsim353/combined.csv", "combined.csv"),
        "ws353-sim": ("EN-WS-353-SIM.txt",),
        "ws353-rel": ("EN-WS-353-REL.txt",),
        "rare-words": ("EN-RW-STANFORD.txt", "rw/rw.txt"),
    },
    optional=frozenset({"ws353-sim", "ws353-rel", "rare-words"}),
    downloads=tuple(
        Download(urls=(f"{_WORD_SIM}/{file}",), filename=file, size=size, hash=f"sha256:{digest}")
        for file, size, digest in (
            (
                "EN-WS-353-ALL.txt",
                7_405,
                "ce12919b240af45bdf46d243601eaca2b6212b159b5e7e9b435ee7ee40c5619c",
            ),
            (
                "EN-WS-353-SIM.txt",
                4_002,
                "f1da938998863c94e53f72f984a5c6e215f0b46c323aae8f0f4930703a339107",
            ),
            (
                "EN-WS-353-REL.txt",
                5_134,
                "66a7c88100624d0a391605ff61ce84e11d11ee620d51ec0298da49592838f8fa",
            ),
            (
                "EN-RW-STANFORD.txt",
                49_851,
                "5108d54dfc746f44f9c3d7e31d2857c37cf71430bc1594175a61a3b89bb0ae1f",
            ),
        )
    ),
)

QVEC = DatasetSpec(
    name="qvec",
    title="QVEC oracle: supersenses of 4,199 English nouns and verbs, from SemCor",
    licence="ODbL",
    licence_text="Open Database License; derived from SemCor (Tsvetkov et al. 2015).",
    homepage="https://github.com/ytsvetko/qvec",
    folders=("wordsim/qvec", "qvec*/oracles"),
    files={"supersenses": ("semcor_noun_verb.supersenses.en",)},
    downloads=(
        Download(
            urls=(f"{_GITHUB}/ytsvetko/qvec/master/oracles/semcor_noun_verb.supersenses.en",),
            filename="semcor_noun_verb.supersenses.en",
            size=442_048,
            hash="sha256:faf61ff5c7e73c641cd0725b569c849c0dd2e9c22e42e056c09d3548bc445394",
        ),
    ),
)

_RELEASE = "r2.16"  # the tag of the repositories of Universal Dependencies


def _treebank(
    name: str,
    language: str,
    prefix: str,
    licence: str,
    splits: tuple[str, ...] = ("train", "dev", "test"),
    optional: tuple[str, ...] = (),
    confirmed: bool = False,
) -> DatasetSpec:
    """Describe a treebank of Universal Dependencies.

    The hashes of a release's files are published nowhere, so `fetch` records them. A file found in ``TACENDA_DATA``
    may be of another release: compare scores only where you know that it is the same.
    """
    repository = f"UD_{language}-{name}"
    base = f"{_GITHUB}/UniversalDependencies/{repository}/{_RELEASE}"
    files = {split: f"{prefix}-ud-{split}.conllu" for split in splits}
    return DatasetSpec(
        name=f"ud-{language}-{name}".lower(),
        title=f"Universal Dependencies, {language} {name} ({', '.join(splits)})",
        licence=licence,
        licence_text=f"{licence}; see the LICENSE file of {repository}, and cite the treebank.",
        homepage=f"https://universaldependencies.org/treebanks/{prefix}/index.html",
        folders=(f"ud/{repository}", repository, f"ud-treebanks-v*/{repository}"),
        files={split: (file, f"{file}.xz") for split, file in files.items()},
        optional=frozenset(optional),
        downloads=tuple(
            Download(urls=(f"{base}/{file}",), filename=file, confirmed=confirmed)
            for file in files.values()
        ),
    )


_BOUN_2020 = DatasetSpec(
    name="ud-turkish-boun-2020",
    title="Universal Dependencies, Turkish BOUN, development state of 23 October 2020",
    licence="CC BY-SA 4.0",
    licence_text="CC BY-SA 4.0; see the LICENSE file of UD_Turkish-BOUN, and cite the treebank.",
    homepage="https://universaldependencies.org/treebanks/tr_boun/index.html",
    folders=("ud/UD_Turkish-BOUN-2020", "UD_Turkish-BOUN-2020"),
    files={
        split: (f"tr_boun-ud-{split}.conllu", f"tr_boun-ud-{split}.conllu.xz")
        for split in ("train", "dev", "test")
    },
    obtain=(
        "check commit a53400b0894c of github.com/UniversalDependencies/UD_Turkish-BOUN out into "
        "TACENDA_DATA/UD_Turkish-BOUN-2020, or use ud-turkish-boun, the current release"
    ),
)

#: What the entry point ``builtin`` of the group ``tacenda.datasets`` names.
BUILTIN: list[DatasetSpec] = [
    ML_100K,
    ML_1M,
    PTB,
    WIKITEXT_2,
    WIKIPEDIA,
    NOVELS,
    NATURAL_STORIES,
    ALASTALO,
    CONLL_2000,
    CONLL_2003,
    WNUT_17,
    TREEBANK_SAMPLE,
    WORDSIM,
    QVEC,
    _treebank("EWT", "English", "en_ewt", "CC BY-SA 4.0", confirmed=True),
    _treebank("IMST", "Turkish", "tr_imst", "CC BY-NC-SA 3.0", confirmed=True),
    _treebank("BOUN", "Turkish", "tr_boun", "CC BY-SA 4.0"),
    _BOUN_2020,
    _treebank("GSD", "German", "de_gsd", "CC BY-SA 4.0", optional=("train",), confirmed=True),
    _treebank("LIT", "German", "de_lit", "CC BY-NC-SA 4.0", splits=("test",)),
    _treebank("PUD", "German", "de_pud", "CC BY-SA 3.0", splits=("test",)),
    _treebank("TDT", "Finnish", "fi_tdt", "CC BY-SA 4.0", optional=("train",), confirmed=True),
    _treebank("FTB", "Finnish", "fi_ftb", "LGPL 3 or later", optional=("train",)),
    _treebank("OOD", "Finnish", "fi_ood", "CC BY-SA", splits=("test",)),
    _treebank("PUD", "Finnish", "fi_pud", "CC BY-SA", splits=("test",)),
]
