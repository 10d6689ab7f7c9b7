"""What word vectors are judged by: similarity scores and supersenses."""

from tacenda.datasets.catalogue.common import GITHUB
from tacenda.datasets.registry import DatasetSpec, Download

_WORD_SIM = (
    f"{GITHUB}/mfaruqui/eval-word-vectors/94b3dd9fdbac7ed08dbee7179cd5ee464acf0594/data/word-sim"
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
            urls=(f"{GITHUB}/ytsvetko/qvec/master/oracles/semcor_noun_verb.supersenses.en",),
            filename="semcor_noun_verb.supersenses.en",
            size=442_048,
            hash="sha256:faf61ff5c7e73c641cd0725b569c849c0dd2e9c22e42e056c09d3548bc445394",
        ),
    ),
)

WORDS = [WORDSIM, QVEC]
