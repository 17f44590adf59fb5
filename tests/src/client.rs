//! A blocking client: one connection, requests one after another. Nothing it waits for lasts longer than its patience.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::message::{Framing, Head, Wire};
use crate::process::Place;

/// How long a client waits for bytes or for room to send.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Client {
    pub wire: Wire,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub head: Head,
    pub body: Vec<u8>,
}

impl Response {
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    /// Connects from `place`.
    pub fn connect(place: &Place, address: SocketAddr) -> io::Result<Self> {
        place.run(|| Self::connect_here(address))
    }

    /// Connects from where the calling thread is.
    pub fn connect_here(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            wire: Wire::new(stream),
        })
    }

    pub fn get(&mut self, path: &str) -> io::Result<Response> {
        self.request("GET", path, "", b"")
    }

    /// `fields` are whole lines, each with its line end; a body brings its length along.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &str,
        body: &[u8],
    ) -> io::Result<Response> {
        let length = match body.len() {
            0 => String::new(),
            length => format!("content-length: {length}\r\n"),
        };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: weir.test\r\n{length}{fields}\r\n");
        self.wire.send(&[head.as_bytes(), body].concat())?;
        self.response(method)
    }

    /// Reads the response to an earlier request of that method.
    pub fn response(&mut self, method: &str) -> io::Result<Response> {
        let mut body = Vec::new();
        let (head, framing) = self.response_head(method)?;
        self.wire
            .read_body(framing, |piece| body.extend_from_slice(piece))?;
        Ok(Response { head, body })
    }

    /// Reads a response up to its body.
    pub fn response_head(&mut self, method: &str) -> io::Result<(Head, Framing)> {
        let head = self.wire.read_head()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let framing = Framing::of_response(&head, method);
        Ok((head, framing))
    }

    /// Whether the peer has closed, or does so before our patience ends, without another byte.
    pub fn is_closed(&mut self) -> bool {
        match self.wire.read_head() {
            Ok(None) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
            Ok(Some(_)) => false,
        }
    }
}

/// One request on a connection of its own.
pub fn get(place: &Place, address: SocketAddr, path: &str) -> io::Result<Response> {
    Client::connect(place, address)?.request("GET", path, "connection: close\r\n", b"")
}
