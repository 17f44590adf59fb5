//! The measuring programs, loaded: whoever holds them can attach them, or show them packets.

use std::time::Duration;

use aya::Ebpf;
use aya::programs::{ProgramError, SchedClassifier, TestRun, TestRunOptions};

use super::kernel::Direction;
use super::unavailable::Unavailable;

pub struct Programs {
    ebpf: Ebpf,
}

impl Programs {
    /// Has the verifier look at both.
    pub fn load(ebpf: Ebpf) -> Result<Self, Unavailable> {
        let mut programs = Self { ebpf };
        for direction in Direction::BOTH {
            programs
                .of(direction)
                .and_then(SchedClassifier::load)
                .map_err(|error| Unavailable::program(direction.program(), error))?;
        }
        Ok(programs)
    }

    pub fn of(&mut self, direction: Direction) -> Result<&mut SchedClassifier, ProgramError> {
        self.ebpf
            .program_mut(direction.program())
            .ok_or(ProgramError::NotLoaded)?
            .try_into()
    }

    /// Runs a program on a packet, `repeat` times and without any interface; returns the time one run took.
    pub fn run_on(
        &mut self,
        direction: Direction,
        packet: &[u8],
        repeat: u32,
    ) -> Result<Duration, ProgramError> {
        let options = TestRunOptions {
            data_in: Some(packet),
            repeat,
            ..TestRunOptions::default()
        };
        let result = self.of(direction)?.test_run(options)?;
        Ok(result.duration)
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
