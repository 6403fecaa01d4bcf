"PDFs put together by hand, for what no library would write."
import io
import zlib


class Pdf:
    "A PDF put together by hand: pages are content streams, so that each can say and draw what it likes."
    def __init__(self): self.objects, self.pages = [], []

    def add(self, body, stream=None, packed=False):
        body = body.encode("latin1") if isinstance(body, str) else body
        if stream is not None:
            data = stream.encode("latin1") if isinstance(stream, str) else stream
            if packed: data, body = zlib.compress(data), body[:-2] + b" /Filter /FlateDecode >>"
            body = body[:-2] + b" /Length %d >>\nstream\n" % len(data) + data + b"\nendstream"
        self.objects.append(body)
        return len(self.objects) + 2   # 1 and 2 are the catalogue and the tree of pages

    def font(self, extra=""): return self.add(f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {extra} >>")

    def image(self, im):
        w, h = im.size
        return self.add(f"<< /Type /XObject /Subtype /Image /Width {w} /Height {h} /ColorSpace /DeviceRGB "
                        "/BitsPerComponent 8 >>", im.convert("RGB").tobytes())

    def page(self, content, font=None, image=None, size=(400, 300), extra="", packed=False):
        font, stream = font or self.font(), self.add("<< >>", content, packed)
        picture = f"/XObject << /I {image} 0 R >>" if image else ""
        self.pages.append(self.add(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size[0]} {size[1]}] {extra} "
                                   f"/Contents {stream} 0 R /Resources << /Font << /F {font} 0 R >> {picture} >> >>"))
        return self

    def save(self, path, catalogue=""):
        kids = " ".join(f"{n} 0 R" for n in self.pages)
        head = [f"<< /Type /Catalog /Pages 2 0 R {catalogue} >>".encode(),
                f"<< /Type /Pages /Kids [{kids}] /Count {len(self.pages)} >>".encode()]
        out, places = io.BytesIO(), []
        out.write(b"%PDF-1.7\n")
        for n, body in enumerate([*head, *self.objects], 1):
            places.append(out.tell())
            out.write(b"%d 0 obj\n" % n + body + b"\nendobj\n")
        at = out.tell()
        out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1))
        for place in places: out.write(b"%010d 00000 n \n" % place)
        out.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(places) + 1, at))
        path.write_bytes(out.getvalue())
        return path


def say(text, x=20, y=200, size=14, before=""): return f"BT {before} /F {size} Tf {x} {y} Td ({text}) Tj ET\n"
