//! The programs, loaded: whoever holds them can attach them, or show them packets.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use aya::Ebpf;
use aya::maps::Map;
use aya::programs::{
    ProgramError, ProgramFd, SchedClassifier, SkReuseport, TestRun, TestRunOptions, TestRunResult,
    Xdp,
};

use super::kernel::Direction;
use super::pins::{Pins, TABLES};
use super::steering;
use super::unavailable::Unavailable;

pub struct Programs {
    ebpf: Ebpf,
    /// Where links are pinned; None if they end with the process.
    pub pins: Option<Pins>,
    /// What the kernel has against `xdp_ingress`, which we can do without.
    xdp_refusal: Option<String>,
}

/// What became of a frame a program was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// Of the kernel's `enum xdp_action`, or one of its `TC_ACT_`s.
    pub action: u32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// What one run took.
    pub duration: Duration,
}

/// What the kernel knows of a packet that segmentation offload keeps together. All zero of one that was never more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    pub count: u16,
    /// Bytes of payload in each but the last.
    pub size: u16,
}

impl Segments {
    /// The kernel's `struct __sk_buff`, with everything else left to the kernel.
    fn context(self) -> [u8; 192] {
        let mut context = [0; 192];
        context[164..166].copy_from_slice(&self.count.to_ne_bytes());
        context[176..178].copy_from_slice(&self.size.to_ne_bytes());
        context
    }
}

const XDP_INGRESS: &str = "xdp_ingress";
/// More than the kernel shows a program by a test run here: jumbo frames, and room.
const LONGEST_FRAME: usize = 16 * 1024;

impl Programs {
    /// Has the verifier look at those that measure, unless it is `without` them, and at what XDP runs.
    pub fn load(ebpf: Ebpf, without: Option<&Unavailable>) -> Result<Self, Unavailable> {
        let mut programs = Self {
            ebpf,
            pins: None,
            xdp_refusal: None,
        };
        for direction in Direction::BOTH.iter().filter(|_| without.is_none()) {
            patiently(|| programs.of(*direction)?.load())
                .map_err(|error| Unavailable::program(direction.program(), error))?;
        }
        let xdp = patiently(|| programs.xdp_program()?.load());
        programs.xdp_refusal = xdp
            .err()
            .map(|error| Unavailable::program(XDP_INGRESS, error).to_string());
        Ok(programs)
    }

    /// `xdp_ingress`, for whoever attaches it; in words, why it cannot be.
    pub fn xdp(&mut self) -> Result<&ProgramFd, String> {
        match &self.xdp_refusal {
            Some(refusal) => Err(refusal.clone()),
            None => self.xdp_fd().map_err(|error| error.to_string()),
        }
    }

    fn xdp_fd(&mut self) -> Result<&ProgramFd, ProgramError> {
        self.xdp_program()?.fd()
    }

    fn xdp_program(&mut self) -> Result<&mut Xdp, ProgramError> {
        self.ebpf
            .program_mut(XDP_INGRESS)
            .ok_or(ProgramError::NotLoaded)?
            .try_into()
    }

    pub fn of(&mut self, direction: Direction) -> Result<&mut SchedClassifier, ProgramError> {
        self.ebpf
            .program_mut(direction.program())
            .ok_or(ProgramError::NotLoaded)?
            .try_into()
    }

    /// What gives connections to workers.
    pub fn pick_worker(&self) -> Result<&SkReuseport, ProgramError> {
        let program = self.ebpf.program(steering::PROGRAM);
        program.ok_or(ProgramError::NotLoaded)?.try_into()
    }

    /// Runs those that measure, each once: what the verifier accepts is still not what runs. The packet is none they measure.
    pub fn prove(&mut self) -> Result<(), Unavailable> {
        for direction in Direction::BOTH {
            self.run_on(direction, &[0; 64], Segments::default(), 1)
                .map_err(|source| Unavailable::TestRun {
                    program: direction.program(),
                    source,
                })?;
        }
        if self.xdp_refusal.is_none()
            && let Err(error) = self.run_xdp(&[0; 64], 1)
        {
            self.xdp_refusal = Some(format!(
                "{XDP_INGRESS} is accepted, but does not run: {error}"
            ));
        }
        Ok(())
    }

    /// Leaves them again, where another process may have put its own in their place, or removed them.
    pub fn pin_again(&self) -> io::Result<()> {
        let Some(pins) = &self.pins else {
            return Ok(());
        };
        pins.make_folder()?;
        self.pin_tables(pins, false)
    }

    /// Leaves the tables for processes to come, unless they were taken over from there, and removes what processes before
    /// left that nobody needs.
    pub fn pin_tables(&self, pins: &Pins, are_adopted: bool) -> io::Result<()> {
        if !are_adopted {
            let mut tables = Vec::new();
            for name in TABLES {
                let fd = match self.table(name) {
                    Some(
                        Map::Array(map)
                        | Map::HashMap(map)
                        | Map::LruHashMap(map)
                        | Map::PerCpuArray(map),
                    ) => map.fd().as_fd(),
                    _ => return Err(io::ErrorKind::NotFound.into()),
                };
                tables.push((name, fd));
            }
            pins.publish(&tables)?;
        }
        for layout in pins.remove_other_layouts()? {
            tracing::info!(
                layout,
                "removed the programs and tables another version of Weir left"
            );
        }
        let elsewhere = pins.remove_filters()?;
        if !elsewhere.is_empty() {
            tracing::warn!(
                interfaces = elsewhere.join(" "),
                "an earlier process left clsact filters in another network namespace: they stay"
            );
        }
        Ok(())
    }

    pub fn table(&self, name: &str) -> Option<&Map> {
        self.ebpf.map(name)
    }

    /// Shows a measuring program a packet, `repeat` times and without any interface.
    pub fn run_on(
        &mut self,
        direction: Direction,
        packet: &[u8],
        segments: Segments,
        repeat: u32,
    ) -> Result<FrameRun, ProgramError> {
        let context = segments.context();
        let program = self.of(direction)?;
        run(program, packet, Some(&context), repeat)
    }

    /// Shows `xdp_ingress` a frame, `repeat` times.
    pub fn run_xdp(&mut self, frame: &[u8], repeat: u32) -> io::Result<FrameRun> {
        if let Some(refusal) = &self.xdp_refusal {
            return Err(io::Error::other(refusal.clone()));
        }
        let program = self.xdp_program().map_err(io::Error::other)?;
        run(program, frame, None, repeat).map_err(io::Error::other)
    }

    /// Instructions the verifier walked before it accepted a program; None where the kernel does not tell.
    pub fn verified_instructions(
        &mut self,
        direction: Direction,
    ) -> Result<Option<u32>, ProgramError> {
        let program = self.of(direction)?;
        Ok(program.info()?.verified_instruction_count())
    }
}

fn run<P>(
    program: &P,
    packet: &[u8],
    context: Option<&[u8]>,
    repeat: u32,
) -> Result<FrameRun, ProgramError>
where
    P: for<'a> TestRun<Opts<'a> = TestRunOptions<'a>, Result = TestRunResult>,
{
    let mut after = vec![0; LONGEST_FRAME];
    let options = TestRunOptions {
        data_in: Some(packet),
        data_out: Some(&mut after),
        ctx_in: context,
        repeat,
        ..TestRunOptions::default()
    };
    let result = program.test_run(options)?;
    after.truncate(result.data_size_out as usize);
    Ok(FrameRun {
        action: result.return_value,
        frame: after,
        duration: result.duration,
    })
}

/// The verifier gives up when its process is wanted elsewhere, and means no refusal by that.
fn patiently(mut load: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    const TRIES: usize = 5;
    for _ in 1..TRIES {
        match load() {
            Err(ProgramError::LoadError { io_error, .. })
                if io_error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
    load()
}
