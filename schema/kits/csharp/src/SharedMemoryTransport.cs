using System;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>
    /// Lets one client after the other drive an engine through a segment in /dev/shm. The thread that calls Serve steps
    /// the engine and answers commands between the steps.
    /// </summary>
    public sealed unsafe class SharedMemoryTransport : IDisposable
    {
        // While answers wait for room in the ring, it is looked at this often.
        private const long FlushNs = 1000000, IdleNs = 1000000000; // a client that comes wakes us; it says its features first

        private readonly Engine _engine;
        private readonly Segment _segment;
        private readonly EngineChannel _channel;
        private readonly StepBuffers _buffers;
        private readonly RpcDispatcher _rpc;
        private readonly ManualResetEvent _closed = new ManualResetEvent(false);
        private ServerCalls _calls;
        private PeerProcess _client;
        private bool _commandsWait, _disposed;
        private volatile bool _stopping;

        /// <summary>
        /// Makes the segment; a dead engine's of that name is replaced. Throws TransportException: Busy when a living
        /// engine has it, SegmentError when the name belongs to something else, NoSpace, ConfigError for a name that is none
        /// or a method with two handlers, SpecError.
        /// </summary>
        public SharedMemoryTransport(string name, Engine engine, int ringBytes = SegmentLayout.DefaultRingBytes)
        {
            _engine = engine;
            _rpc = new RpcDispatcher(engine.Spec.Engine);
            _rpc.Handle(Methods.AgentService.GetAgentSchema, engine.Spec.SchemaOf);
            _rpc.KeepDefaults();
            engine.Register(_rpc);
            _segment = Segment.Create(name, engine.Spec, ringBytes);
            byte* start = _segment.Mapping.Start;
            _channel = new EngineChannel(start, _segment.Plan, engine.Spec.NumEnvs, _segment.Mapping.Check);
            _buffers = new StepBuffers(start, _segment.Plan, engine.Spec);
            AwaitClient();
        }

        /// <summary>
        /// Serves until Stop, then removes the segment. Throws SegmentError when another process cut its file: what has
        /// been mapped beyond the new end is lost, and touching it ends this process.
        /// </summary>
        public void Serve()
        {
            bool isCut = false;
            try
            {
                _segment.PublishReady();
                while (!_stopping) Turn();
            }
            catch (TransportException error) when (error.Code == WireCode.SegmentError)
            {
                isCut = true;
                throw;
            }
            finally
            {
                Close(isCut);
            }
        }

        /// <summary>Makes Serve return; from any thread, idempotent.</summary>
        public void Stop()
        {
            _stopping = true;
            lock (_closed)
                if (!_disposed) _channel.Interrupt();
        }

        /// <summary>Waits for Serve to have removed the segment; false when it has not within that time.</summary>
        public bool WaitClosed(TimeSpan timeout) { return _closed.WaitOne(timeout); }

        /// <summary>Removes the segment, for a transport that is not serving; idempotent.</summary>
        public void Dispose() { Close(false); }

        private void Turn()
        {
            bool isIdle = _client == null && _segment.Mapping.Load32(HeaderField.ClientFeatures) == 0;
            Found found = _channel.Next(_calls.HasPending ? FlushNs : isIdle ? IdleNs : Timing.SliceNs);
            if (found == Found.Nothing || found == Found.OutOfOrder) LookAfterClient(found);
            if ((found & Found.Commands) != 0) Feed();
            if ((found & Found.Actions) != 0) Exchange((found & Found.Control) != 0);
            if (_commandsWait) Feed();
            _calls.Flush();
            _rpc.World.YieldToWaiters();
        }

        private void Exchange(bool hasControl)
        {
            if (_client == null) KnowClient(_segment.Mapping.Load32(HeaderField.ClientPid));
            try
            {
                using (_rpc.World.Enter())
                {
                    _buffers.Begin(hasControl);
                    _engine.Step(_buffers);
                    _buffers.End();
                }
            }
            catch (Exception error) // an engine is foreign code and may throw anything
            {
                Console.Error.WriteLine("lucky_transport: engine '{0}' failed in step: {1}", _engine.Spec.Engine, error);
                Refuse(TransportException.Of(error, _engine.Spec.Engine, "step"));
                return;
            }
            _channel.Publish(0);
        }

        private void Refuse(TransportException error)
        {
            _segment.WriteError(error);
            _channel.Publish((uint)error.Code);
        }

        // -- the client ----------------------------------------------------------------------------------------------

        private void AwaitClient()
        {
            _calls = new ServerCalls(_rpc, _segment, _channel.Interrupt);
            _commandsWait = false;
            _channel.CommandsRead(0);
        }

        // The pid is read once by the caller: the client may leave meanwhile.
        private void KnowClient(uint pid)
        {
            SharedMapping mapping = _segment.Mapping;
            if (pid == 0 || (_client != null && _client.Pid == pid)) return;
            FaultPoint.Reached("client.seen");
            _client = new PeerProcess(
                _segment.Lock, mapping.Load64(HeaderField.ClientLock), pid, mapping.Load64(HeaderField.ClientStart));
            _channel.SetPeer((Feature)mapping.Load32(HeaderField.ClientFeatures));
        }

        // Between exchanges: notices a client that came, left, died or broke the counters.
        private void LookAfterClient(Found found)
        {
            SharedMapping mapping = _segment.Mapping;
            mapping.Check();
            if (found == Found.OutOfOrder)
            {
                Console.Error.WriteLine("lucky_transport: the client broke the action counter; its exchange is dropped");
                _channel.Resync();
            }
            uint pid = mapping.Load32(HeaderField.ClientPid);
            if (pid != 0)
            {
                KnowClient(pid);
                if (_client.IsAlive) return;
                Console.Error.WriteLine("lucky_transport: the client, process {0}, ended without closing", _client.Pid);
                LetGo();
            }
            else if (_client != null || HasLeftUnseen) LetGo();
        }

        // a client that has come and gone between two looks; one that is coming has its start time there
        private bool HasLeftUnseen
        {
            get
            {
                return _segment.Mapping.Load32(HeaderField.ClientFeatures) != 0
                    && _segment.Mapping.Load64(HeaderField.ClientStart) == 0;
            }
        }

        private void LetGo()
        {
            _client = null;
            _channel.SetPeer(Feature.Wake | Feature.Parks);
            _channel.Resync();
            FaultPoint.Reached("client.resync");
            _calls.Close(new TransportException(WireCode.PeerDied, "the client is gone"));
            FaultPoint.Reached("client.calls_closed");
            if (!_stopping) AwaitClient(); // what the engine said last is still to be read
            FaultPoint.Reached("client.rings_emptied");
            SharedMapping mapping = _segment.Mapping;
            mapping.Store64(HeaderField.ClientLock, 0);
            mapping.Store64(HeaderField.ClientPidNamespace, 0);
            mapping.Store64(HeaderField.ClientStart, 0);
            mapping.Store32(HeaderField.ClientPid, 0);
            FaultPoint.Reached("client.cleared");
            mapping.Store32(HeaderField.ClientFeatures, 0); // last: the next client waits for it
            FaultPoint.Reached("client.let_go");
        }

        // -- commands ------------------------------------------------------------------------------------------------

        private void Feed()
        {
            uint position;
            try
            {
                _commandsWait = !_calls.Feed();
                position = _commandsWait ? _calls.Written : _calls.Position;
            }
            catch (TransportException error) // a client that writes garbage gets no answers any more
            {
                if (error.Code != WireCode.ClosedError)
                    Console.Error.WriteLine("lucky_transport: {0}; the client's commands are dropped", error.Message);
                _commandsWait = false;
                position = _calls.Written;
            }
            _channel.CommandsRead(position);
        }

        private void Close(bool isCut)
        {
            if (_disposed) return;
            _stopping = true;
            var why = new TransportException(WireCode.ClosedError, "the engine is closing");
            if (isCut) _calls.Close(why);
            else
            {
                _segment.Mapping.Store32(HeaderField.EngineState, (uint)EngineState.Closing);
                if (_channel.IsAwaited) Refuse(why);
                _calls.ShutDown(why);
                LetGo();
            }
            lock (_closed)
            {
                _disposed = true;
                _segment.Dispose();
            }
            _closed.Set();
        }
    }
}
