"""Carry TCP connections from a loopback port of this machine into a sandbox, so that pytest reaches its API server.

A program of its own: in pytest's process it would slow down what a test measures. It must not look at what it carries.

    python -m tests.kubernetes.forwarder PORT ADDRESS ADDRESS_PORT PID
"""

import asyncio
import socket
import sys

from tests.kubernetes.sandbox import join_network


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction to its end."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _serve(listener: socket.socket, address: str, port: int) -> None:
    """Serve until killed."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(address, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_carry(reader, inner_writer), _carry(inner_reader, writer))

    server = await asyncio.start_server(accept, sock=listener)
    await server.serve_forever()


def main() -> None:
    """Listen here, then go there."""
    port, address, address_port, pid = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    listener = socket.create_server(("127.0.0.1", port))
    join_network(pid)
    asyncio.run(_serve(listener, address, address_port))


if __name__ == "__main__":
    main()
