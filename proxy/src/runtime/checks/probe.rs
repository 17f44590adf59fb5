//! One check of one endpoint, on a connection of its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::check::{ActiveCheck, HttpQuestion, Question};
use crate::http::Method;
use crate::http::h1::{HeadError, HeadLimits, HeadScan, ResponseHead};

/// Why an endpoint does not pass.
#[derive(Debug, Error)]
pub enum Fault {
    #[error("no connection: {0}")]
    Connect(io::Error),
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    #[error("the connection was closed before an answer came")]
    Closed,
    #[error("the answer is not HTTP: {0}")]
    Malformed(#[from] HeadError),
    #[error("{question}, but the status is {status}")]
    Status { question: String, status: u16 },
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl Fault {
    /// Whether it says something of this host, and nothing of the endpoint.
    pub fn is_ours(&self) -> bool {
        let Self::Connect(error) = self else {
            return false;
        };
        let ours = [
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOBUFS,
            libc::ENOMEM,
            libc::EADDRNOTAVAIL,
        ];
        error
            .raw_os_error()
            .is_some_and(|error| ours.contains(&error))
    }
}

pub async fn ask(address: SocketAddr, check: &ActiveCheck) -> Result<(), Fault> {
    let answer = async {
        let stream = TcpStream::connect(address).await.map_err(Fault::Connect)?;
        match &check.question {
            Question::Tcp => Ok(()),
            Question::Http(question) => ask_http(stream, address, question).await,
        }
    };
    let answer = timeout(check.timeout, answer).await;
    answer.unwrap_or(Err(Fault::Timeout(check.timeout)))
}

async fn ask_http(
    mut stream: TcpStream,
    address: SocketAddr,
    question: &HttpQuestion,
) -> Result<(), Fault> {
    let request = question.request(&address);
    // An endpoint may answer before it has read all: what it said is what counts.
    let written = stream.write_all(request.as_bytes()).await;
    let status = match read_status(&mut stream).await {
        Err(Fault::Closed) => return Err(written.map_or_else(Fault::Broken, |()| Fault::Closed)),
        status => status?,
    };
    if question.expects(status) {
        return Ok(());
    }
    let question = question.to_string();
    Err(Fault::Status { question, status })
}

/// The status of the final response.
async fn read_status(stream: &mut TcpStream) -> Result<u16, Fault> {
    const PIECE: usize = 1024;
    let limits = HeadLimits::default();
    let mut head = ResponseHead::default();
    let mut bytes = Vec::new();
    let mut scan = HeadScan::response();
    loop {
        while let Some(length) = scan.advance(&bytes, &limits)? {
            head.parse(&bytes[..length], Method::Get, &limits)?;
            if !head.is_interim() {
                return Ok(head.status().code());
            }
            bytes.drain(..length);
            scan = HeadScan::response();
        }
        bytes.reserve(PIECE);
        match stream.read_buf(&mut bytes).await {
            Ok(0) => return Err(Fault::Closed),
            Ok(_) => {}
            Err(error) => return Err(Fault::Broken(error)),
        }
    }
}
