//! A step recorded as a graph, and points in the device's work.

use std::rc::Rc;

use cudarc::driver::{result, sys};

use super::Device;
use crate::Result;

impl Device {
    /// Records everything that `work` puts on the stream, to be launched as one.
    pub fn capture(self: &Rc<Self>, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        self.current()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is ours; capture is ended whatever happens.
        let (done, graph) = unsafe {
            result::stream::begin_capture(self.stream, mode).map_err(|e| self.failed("capture a step", e))?;
            (work(), result::stream::end_capture(self.stream))
        };
        done?;
        let graph = graph.map_err(|e| self.failed("capture a step", e))?;
        // SAFETY: a graph just captured.
        let executable = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
        let executable = executable.map_err(|e| self.failed("instantiate a step", e));
        // SAFETY: the executable does not need the graph it was made from.
        unsafe { result::graph::destroy(graph) }.map_err(|e| self.failed("destroy a graph", e))?;
        Ok(Graph {
            device: Rc::clone(self),
            executable: executable?,
        })
    }

    /// A point in the stream. One that is `timed` knows when it was reached.
    pub fn event(self: &Rc<Self>, timed: bool) -> Result<Event> {
        self.current()?;
        let flags = if timed {
            sys::CUevent_flags::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING
        };
        let event = result::event::create(flags).map_err(|e| self.failed("make an event", e))?;
        Ok(Event {
            device: Rc::clone(self),
            event,
        })
    }
}

/// Launches recorded once, started again with one call.
pub struct Graph {
    device: Rc<Device>,
    executable: sys::CUgraphExec,
}

impl Graph {
    pub fn launch(&self) -> Result<()> {
        self.device.current()?;
        // SAFETY: the graph is alive, and so is what its kernels use: see the session.
        unsafe { result::graph::launch(self.executable, self.device.stream) }
            .map_err(|e| self.device.failed("start a step", e))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe {
            let _ = result::ctx::set_current(self.device.context);
            let _ = result::graph::exec_destroy(self.executable);
        }
    }
}

/// A point in the device's work.
pub struct Event {
    device: Rc<Device>,
    event: sys::CUevent,
}

impl Event {
    pub fn record(&self) -> Result<()> {
        self.device.current()?;
        // SAFETY: event and stream are ours.
        unsafe { result::event::record(self.event, self.device.stream) }
            .map_err(|e| self.device.failed("record an event", e))
    }

    /// Waits until the work before the last `record` is done.
    pub fn wait(&self) -> Result<()> {
        self.device.current()?;
        // SAFETY: the event is ours.
        unsafe { result::event::synchronize(self.event) }.map_err(|e| self.device.failed("finish its work", e))
    }

    /// Seconds from `earlier` to this event; both were waited for.
    pub fn since(&self, earlier: &Self) -> Result<f64> {
        // SAFETY: both were recorded on one stream.
        let milliseconds = unsafe { result::event::elapsed(earlier.event, self.event) };
        milliseconds
            .map(|ms| f64::from(ms) / 1e3)
            .map_err(|e| self.device.failed("measure time", e))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe {
            let _ = result::ctx::set_current(self.device.context);
            let _ = result::event::destroy(self.event);
        }
    }
}
