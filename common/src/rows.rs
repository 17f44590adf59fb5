//! The values of the array tables. Each is written once here and exists twice: as plain integers, which is how kernel
//! programs see it, and as [`Cells`](crate::Cells) of atomics of the same layout, which is how the proxy sees the
//! mapped memory.

/// Declares one table value and its twin of atomics.
macro_rules! row {
    (
        $(#[$meta:meta])*
        $name:ident, $cells:ident, $align:literal, $size:literal, pad $pad:literal {
            $($(#[$field_meta:meta])* $field:ident,)*
        }
    ) => {
        $(#[$meta])*
        #[repr(C, align($align))]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: u64,)*
            padding: [u64; $pad],
        }

        const _: () = assert!(size_of::<$name>() == $size);

        #[cfg(feature = "user")]
        #[doc = concat!("[`", stringify!($name), "`] as user space sees it: shared memory, one atomic a field.")]
        #[repr(C, align($align))]
        #[derive(Debug, Default)]
        pub struct $cells {
            $($(#[$field_meta])* pub $field: core::sync::atomic::AtomicU64,)*
            padding: [core::sync::atomic::AtomicU64; $pad],
        }

        #[cfg(feature = "user")]
        const _: () = assert!(size_of::<$cells>() == $size);

        #[cfg(feature = "user")]
        impl $cells {
            /// The row as it is now, field by field: fields that change together may be read a moment apart.
            pub fn read(&self) -> $name {
                $name {
                    $($field: self.$field.load(core::sync::atomic::Ordering::Relaxed),)*
                    ..Default::default()
                }
            }

            /// Sets every field to zero.
            pub fn clear(&self) {
                $(self.$field.store(0, core::sync::atomic::Ordering::Relaxed);)*
            }
        }

        // SAFETY: the type is `repr(C)` and made of `AtomicU64` alone, and the assertions above leave no room for
        // implicit padding, so every bit pattern is valid and all access is atomic.
        #[cfg(feature = "user")]
        unsafe impl crate::Cells for $cells {}
    };
}

row! {
    /// `META[0]`: who owns the tables and how large they are.
    Meta, MetaCells, 64, 128, pad 7 {
        /// [`MAGIC`](crate::MAGIC), written last: a reader that finds it finds the rest.
        magic,
        /// [`LAYOUT_VERSION`](crate::LAYOUT_VERSION) of the writer.
        layout_version,
        /// Endpoints the tables hold; the stride of per-CPU and per-worker tables.
        capacity,
        /// CPUs the per-CPU tables have room for.
        cpus,
        /// Workers `ENDPOINT_LOAD` and `ENDPOINT_ATTEMPTS` have room for.
        workers,
        /// Raised whenever an endpoint's index is given to another endpoint.
        generation,
        /// Coarse monotonic nanoseconds of the owner's last sign of life.
        heartbeat_ns,
        /// Raised whenever the set of ejected endpoints changes, so that workers refresh what they remember of it.
        ejection_epoch,
        /// 1 from the first L4 service on, since its connections outlive it; while 0, `xdp_ingress` looks for neither.
        has_l4,
    }
}

row! {
    /// `ENDPOINT_WIRE[cpu * capacity + endpoint]`: what kernel programs counted. Counters only ever rise; a reader sums
    /// over CPUs.
    EndpointWire, EndpointWireCells, 64, 128, pad 4 {
        /// Exchanges whose first request byte left.
        started,
        /// Exchanges whose first response byte came.
        finished,
        /// Nanoseconds from the last request byte out to the first response byte in, summed.
        first_byte_ns_sum,
        /// Samples in `first_byte_ns_sum`.
        first_byte_count,
        /// Nanoseconds from SYN to SYN-ACK, summed.
        connect_ns_sum,
        /// Samples in `connect_ns_sum`.
        connect_count,
        /// Connections whose handshake was seen.
        opened,
        /// Connections whose end was seen.
        closed,
        /// Segments of payload sent again.
        retransmits,
        /// Resets received.
        resets,
        /// Payload bytes sent, retransmits left out.
        bytes_out,
        /// Payload bytes received.
        bytes_in,
    }
}

row! {
    /// `ENDPOINT_READING[endpoint]`: what a pick compares, and nothing else, so that a large backend stays in the
    /// processor's caches. Shared by all workers. Of floats that are not negative the bits are in the order of the
    /// values: the kernel can compare either field as a whole number, though not compute a score of them.
    EndpointReading, EndpointReadingCells, 16, 16, pad 0 {
        /// `f64` bits of the health EWMA, 0.0 to 1.0.
        health,
        /// `f64` bits of the latency EWMA in seconds; 0 before the first sample.
        latency,
    }
}

row! {
    /// `ENDPOINT_OUTLOOK[endpoint]`: the same for adaptive scoring. A figure has its `f32` bits above, and below them
    /// when it was true: monotonic time in units of 2^20 ns.
    EndpointOutlook, EndpointOutlookCells, 16, 16, pad 0 {
        /// Latency in seconds. 0 until the endpoint is first seen; negative while it was seen and not measured.
        latency,
        /// Health, above 0.0 to 1.0. 0 until the first failure.
        health,
    }
}

row! {
    /// `ENDPOINT_STATE[endpoint]`: what else the balancer remembers of an endpoint, shared by all workers. Picks do not
    /// look here.
    EndpointState, EndpointStateCells, 64, 128, pad 2 {
        /// Whose state this is: raised when the index is given to another endpoint. Late news carries it.
        generation,
        /// Latency samples taken, by either clock.
        latency_samples,
        /// Of those, the samples measured by the kernel.
        kernel_samples,
        /// 1 if the latest sample was the kernel's, 2 if it was a worker's, 0 before the first.
        latency_source,
        /// Failures since the last success.
        consecutive_failures,
        /// Ejections since the last success: the next one lasts longer.
        times_ejected,
        /// Monotonic nanoseconds until which the endpoint is ejected; 0 when it is not.
        ejected_until_ns,
        /// Ejections ever.
        ejections_total,
        /// Nanoseconds the workers' own latency exceeded the kernel's by, summed: the proxy's own delay.
        self_delay_ns_sum,
        /// Active checks the endpoint fails: while there is one, it is ejected.
        failing_checks,
        /// Checks that passed, ever.
        checks_passed,
        /// Checks that failed, ever.
        checks_failed,
        /// Checks this host had no descriptor, port or memory for.
        checks_not_made,
        /// Ejections by checks, ever.
        check_ejections_total,
    }
}

row! {
    /// `ENDPOINT_IDENTITY[endpoint]`: whose row it is, in a form that outlives the process: a process that finds the tables
    /// of an earlier one knows its endpoints by it. All zero for a row that was never given out.
    EndpointIdentity, EndpointIdentityCells, 16, 16, pad 0 {
        /// Hash of the endpoint's key.
        key,
        /// Hash of its address, as text.
        address,
    }
}

row! {
    /// `ENDPOINT_LOAD[worker * capacity + endpoint]`: how busy one worker keeps an endpoint; the load of an endpoint is
    /// the sum over workers. One writer a row, so plain stores are enough. Small, since every pick reads it of two
    /// endpoints and all workers.
    EndpointLoad, EndpointLoadCells, 8, 8, pad 0 {
        /// Leases handed out and not finished.
        pending,
    }
}

row! {
    /// `ENDPOINT_ATTEMPTS[worker * capacity + endpoint]`: what became of one worker's leases. One writer a row.
    EndpointAttempts, EndpointAttemptsCells, 32, 32, pad 0 {
        /// Leases ever handed out.
        picked,
        /// Leases finished as a success.
        succeeded,
        /// Leases finished as a failure.
        failed,
        /// Leases finished without a verdict on the endpoint.
        neutral,
    }
}

row! {
    /// `ENDPOINT_SCORE[endpoint]`: how good an endpoint is for L4 services, and what their connections say of it.
    EndpointScore, EndpointScoreCells, 64, 64, pad 0 {
        /// Health, 0 to 2^16, in the upper half; latency in 2^-20 s in the lower one, at most
        /// [`MAX_SCORE_LATENCY`](crate::MAX_SCORE_LATENCY). Written by user space.
        packed,
        /// What else is in flight at the endpoint: leases of all workers. Written by user space.
        pending,
        /// Connections, and datagrams' flows, that were given to the endpoint. Written by the kernel, as all that follow.
        opened,
        /// Connections among them that have ended, and those user space finds gone.
        closed,
        /// Connections the endpoint has accepted.
        accepted,
        /// Connections it has refused.
        refused,
        /// Connections whose SYN had to be sent again.
        unanswered,
        /// Nanoseconds from SYN to SYN-ACK, summed over those accepted.
        connect_ns_sum,
    }
}

row! {
    /// `FLOW_SAMPLE[slot]`: the latest first-byte sample of one upstream connection.
    FlowSample, FlowSampleCells, 16, 16, pad 0 {
        /// Nanoseconds from the last request byte out to the first response byte in.
        first_byte_ns,
        /// Which sample of this flow it is, from 1; written after `first_byte_ns`.
        exchange,
    }
}

row! {
    /// `WORKER[worker]`: what a worker tells of itself once in every turn of its loop, for whoever gives it connections.
    Worker, WorkerCells, 64, 64, pad 2 {
        /// Monotonic nanoseconds of this news.
        heartbeat_ns,
        /// Monotonic nanoseconds by which the next will have come, unless the worker is held up.
        due_ns,
        /// Connections it holds, those to endpoints included.
        connections,
        /// How long a turn keeps it from new connections, in nanoseconds; a moving average.
        loop_lag_ns,
        /// 1 while it takes new connections.
        accepting,
        /// [`WorkerSteered::connections`] when the worker last looked for new connections.
        steered_seen,
    }
}

row! {
    /// `WORKER_STEERED[worker]`: what `pick_worker` gave to a worker. Written by the kernel.
    WorkerSteered, WorkerSteeredCells, 64, 64, pad 7 {
        /// Attempts to connect.
        connections,
    }
}
