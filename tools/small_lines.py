"""The model that reads lines in whole numbers of 8 bits: makes cosee/data/lines.onnx from what rapidocr brings.

    pip install onnx
    python tools/small_lines.py
    python tools/small_lines.py --out /elsewhere/lines.onnx --lines 90

Convolutions and products of matrices are done in whole numbers; how large their inputs get is seen on lines of made
pages, whose seeds no benchmark uses. Weights keep 7 bits, so that processors without a command of their own for such
products come to the same sums. The characters that the model knows stay in the file as they are.
"""
import argparse
import math
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
OUT = ROOT / "cosee" / "data" / "lines.onnx"
OPSET = 17   # the first that has all that is needed is 13: a scale for each channel
PAGES = [   # kind, seed, resolution, what a scanner does to the page
    ("contract", 101, 120, {}), ("invoice", 102, 150, {}), ("form", 103, 100, dict(rotate=1.0, noise=.03)),
    ("report", 104, 120, dict(noise=.02, blur=.3)), ("datasheet", 105, 100, {}),
    ("timetable", 106, 100, dict(noise=.02)), ("slides", 107, 100, {}), ("report", 108, 100, {})]


def made_lines() -> list:
    "Pictures of the lines of made pages."
    import numpy as np
    from cosee.datasets.synthetic.document import make_document, render
    from cosee.text.ocr import _make_engine
    engine, out = _make_engine(quick=False), []
    for kind, seed, dpi, effects in PAGES:
        image = render(make_document(kind, seed, "dev"), dpi, [1], **effects)[0]
        bgr = np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])
        out += engine.detect_and_crop(*engine.preprocess_img(bgr))[0]
    return out


def as_input(crop):
    "A line as the model takes it: 48 pixels high, values from -1 to 1."
    import cv2
    width = max(48, math.ceil(48 * crop.shape[1] / crop.shape[0]))
    return (cv2.resize(crop, (width, 48)).astype("float32").transpose(2, 0, 1)[None] / 255 - .5) / .5


def prepared(model: Path, folder: Path) -> Path:
    "The model with its constants folded, in a version of the format that knows scales by channel."
    onnx, shapes = import_module("onnx"), import_module("onnxruntime.quantization.shape_inference")
    shapes.quant_pre_process(str(model), str(folder / "folded.onnx"), skip_symbolic_shape=True)
    folded = onnx.load(folder / "folded.onnx")
    said = {p.key: p.value for p in folded.metadata_props}
    plain = [o for o in folded.opset_import if not o.domain]
    del folded.opset_import[:]
    folded.opset_import.extend(plain)
    newer = import_module("onnx.version_converter").convert_version(folded, OPSET)
    del newer.metadata_props[:]
    newer.metadata_props.add(key="character", value=said["character"])
    onnx.save(newer, folder / "newer.onnx")
    return folder / "newer.onnx"


def quantise(model: Path, lines: list, out: Path) -> None:
    "Write the model in whole numbers, its inputs' ranges seen on `lines`."
    how = import_module("onnxruntime.quantization")
    name = import_module("onnxruntime").InferenceSession(str(model)).get_inputs()[0].name

    class Lines(how.CalibrationDataReader):
        left = iter(lines)
        def get_next(self): return next(({name: as_input(crop)} for crop in self.left), None)
    how.quantize_static(str(model), str(out), Lines(), quant_format=how.QuantFormat.QDQ, per_channel=True,
                        reduce_range=True, activation_type=how.QuantType.QUInt8, weight_type=how.QuantType.QInt8,
                        op_types_to_quantize=["Conv", "MatMul"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=OUT, help="the file that is written")
    p.add_argument("--lines", type=int, default=90, help="lines that are looked at")
    args = p.parse_args()
    import numpy as np
    import rapidocr
    crops = made_lines()
    some = [crops[i] for i in np.random.default_rng(1).permutation(len(crops))[:args.lines]]
    model = Path(rapidocr.__file__).parent / "models" / "PP-OCRv6_rec_small.onnx"
    with TemporaryDirectory() as folder: quantise(prepared(model, Path(folder)), some, args.out)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes from {len(some)} lines")


if __name__ == "__main__": main()
