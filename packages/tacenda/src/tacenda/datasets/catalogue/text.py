"""Running text for language models and embeddings."""

from tacenda.datasets.catalogue.common import PENN, compressed
from tacenda.datasets.registry import MIB, DatasetSpec, Download

PTB = DatasetSpec(
    name="ptb",
    title="Penn Treebank text for language modelling, as Mikolov prepared it",
    licence="LDC; circulated for research",
    licence_text=PENN,
    homepage="http://www.fit.vutbr.cz/~imikolov/rnnlm/",
    folders=("lm/ptb", "ptb", "simple-examples/data"),
    files={
        "train": compressed("ptb.train.txt"),
        "dev": compressed("ptb.valid.txt"),
        "test": compressed("ptb.test.txt"),
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
        "train": compressed("wiki.train.tokens", "train.txt"),
        "dev": compressed("wiki.valid.tokens", "valid.txt"),
        "test": compressed("wiki.test.tokens", "test.txt"),
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
        "train": compressed("train.txt"),
        "dev": compressed("dev.txt"),
        "test": compressed("test.txt"),
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

TEXT = [PTB, WIKITEXT_2, WIKIPEDIA, NOVELS, ALASTALO]
