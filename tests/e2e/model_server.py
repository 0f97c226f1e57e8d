#!/usr/bin/env python3
"""model_server.py FOLDER LOG: serves FOLDER on 127.0.0.1 and misbehaves as the first part of the path asks.

The port is the first line on standard output. Every request is a line of LOG: path, Range header or "-".
"""
import http.server
import os
import sys

FOLDER, LOG = sys.argv[1:]
seen = {}  # how often a path was asked for


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=(), send=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if send is None else body[:send])
        self.wfile.flush()

    def answer_file(self, body, ranges=True, send=None):
        asked = self.headers.get("Range")
        if not (ranges and asked):
            return self.answer(200, body, send=send)
        start = int(asked.removeprefix("bytes=").split("-")[0])
        where = f"bytes {start}-{len(body) - 1}/{len(body)}"
        return self.answer(206, body[start:], [("Content-Range", where)], send)

    def do_GET(self):
        with open(LOG, "a") as log:
            log.write(f"{self.path} {self.headers.get('Range', '-')}\n")
        first = seen.setdefault(self.path, 0) == 0
        seen[self.path] += 1
        _, manner, rest = self.path.split("/", 2)
        path = os.path.join(FOLDER, rest)
        if manner == "absent" or not os.path.isfile(path):
            return self.answer(404, b"no such file")
        with open(path, "rb") as file:
            body = file.read()
        half = len(body) // 2
        if manner == "redirect":
            return self.answer(302, headers=[("Location", f"/plain/{rest}")])
        if manner == "elsewhere":  # to what is no web address
            return self.answer(302, headers=[("Location", f"file://{os.path.abspath(path)}")])
        if manner == "busy" and first:
            return self.answer(503, b"later")
        if manner == "cut" and first:
            return self.answer_file(body, send=half)
        if manner == "dying":  # half of it, then nothing any more
            return self.answer_file(body, send=half) if first else self.answer(503, b"gone")
        if manner == "norange":
            return self.answer_file(body, ranges=False, send=half if first else None)
        if manner == "wrong":
            return self.answer_file(body[:-1] + bytes([body[-1] ^ 1]))
        if manner == "long":
            return self.answer_file(body + body)
        return self.answer_file(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
