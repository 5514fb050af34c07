using System;
using System.Collections.Generic;
using System.Linq;

namespace LuckyTransport
{
    /// <summary>
    /// All calls of one client, as they come through the segment's rings. A client that breaks the protocol gets an
    /// error and no answers any more.
    /// </summary>
    internal sealed unsafe class ServerCalls
    {
        // Records handled in one go, before the next step is looked for.
        private const int Batch = 64;
        private const int MaxCalls = 1024;
        private const ulong GoAway = 0;

        private readonly RpcDispatcher _rpc;
        private readonly RingBuffer _reader;
        private readonly SendQueue _queue;
        private readonly Fragments _fragments = new Fragments();
        private readonly Dictionary<ulong, ServerCall> _calls = new Dictionary<ulong, ServerCall>();
        private readonly ImageStore _images;
        private TransportException _closed;
        private ulong _highest;

        /// <summary>Both rings are emptied; no client may be using them. `wake` makes the engine's thread look.</summary>
        internal ServerCalls(RpcDispatcher rpc, Segment segment, Action wake)
        {
            _rpc = rpc;
            byte* start = segment.Mapping.Start;
            byte* inward = start + segment.Plan.RingToEngine, outward = start + segment.Plan.RingToClient;
            uint size = (uint)segment.Plan.RingBytes; // the header's field is writable for the client
            var writer = new RingBuffer(outward, size, (int*)(start + HeaderField.ParkCommand), true, empty: true);
            _reader = new RingBuffer(inward, size, null, false, empty: true);
            _queue = new SendQueue(writer, wake);
            _images = new ImageStore(segment.Mapping.Path);
        }

        /// <summary>How far the client's records were read.</summary>
        internal uint Position { get { return _reader.Position; } }

        /// <summary>How far the client has written.</summary>
        internal uint Written { get { return _reader.Written; } }

        /// <summary>True while answers wait for room in the ring.</summary>
        internal bool HasPending { get { return _queue.HasPending; } }

        internal ImageSink SharedImages { get { return _images.Shared; } }

        internal ImageSink OpenImages() { return _images.Open(); }

        /// <summary>Writes what has room by now.</summary>
        internal void Flush() { _queue.Flush(); }

        /// <summary>
        /// Handles what waits, some records at most; false when the client has to read its answers first. Throws what
        /// ended the connection.
        /// </summary>
        internal bool Feed()
        {
            if (_closed != null) throw new TransportException(WireCode.ClosedError, _closed.Message);
            try
            {
                for (int i = 0; i < Batch; i++)
                {
                    if (_queue.IsCongested) return false;
                    byte[] record = _reader.TryRead();
                    if (record == null) return true;
                    OnEnvelope(DecodeEnvelope(record));
                }
                return _reader.Position == _reader.Written;
            }
            catch (TransportException error)
            {
                ShutDown(error);
                throw;
            }
        }

        /// <summary>Tells the client of every call, and of all that would come, that it ends here; then Close.</summary>
        internal void ShutDown(TransportException error)
        {
            if (_closed != null) return;
            foreach (ServerCall call in Open())
                if (call.Lose()) Post(ServerCall.ErrorEnvelope(call.Id, error));
            Post(ServerCall.ErrorEnvelope(GoAway, error));
            Close(error);
        }

        /// <summary>Ends every call without a word; idempotent.</summary>
        internal void Close(TransportException error)
        {
            if (_closed == null) _closed = error;
            foreach (ServerCall call in Open()) call.Lose();
            _queue.Close();
            _images.Close();
        }

        private ServerCall[] Open()
        {
            lock (_calls) return _calls.Values.ToArray();
        }

        // -- for ServerCall, from any thread -------------------------------------------------------------------------

        internal void Forget(ulong id)
        {
            lock (_calls) _calls.Remove(id);
        }

        /// <summary>Sends an envelope as soon as there is room; never waits.</summary>
        internal void Post(Envelope envelope) { _queue.Post(Cut(envelope)); }

        /// <summary>Sends an envelope; waits until all that was posted before has room, or `isOver`.</summary>
        internal void Send(Envelope envelope, Func<bool> isOver) { _queue.Send(Cut(envelope), isOver); }

        private IEnumerable<byte[]> Cut(Envelope envelope)
        {
            return Fragments.Cut(envelope.Encode(4), envelope, _queue.LargestRecord);
        }

        // -- receiving -----------------------------------------------------------------------------------------------

        /// <summary>Throws RemoteProtocolError for anything but a sound envelope of a known kind.</summary>
        internal static Envelope DecodeEnvelope(byte[] record)
        {
            var envelope = Message.Decode<Envelope>(record);
            if (envelope.Kind > Kind.Headers)
                throw Broken("an envelope of kind {0} for method {1}, call {2}", envelope.Kind, envelope.Method, envelope.CorrelationId);
            return envelope;
        }

        private void OnEnvelope(Envelope envelope)
        {
            ulong id = envelope.CorrelationId;
            var kind = envelope.Kind;
            if (kind == Kind.Request)
            {
                OnRequest(envelope);
                return;
            }
            if (kind == Kind.Fragment)
            {
                _highest = Math.Max(_highest, id);
                TransportException refusal;
                byte[] record = _fragments.Add(envelope, out refusal);
                if (refusal != null) Refuse(id, refusal);
                else if (record != null) OnWhole(id, DecodeEnvelope(record));
                return;
            }
            if (kind == Kind.Cancel) _fragments.Drop(id); // the call may have ended, or not have begun
            ServerCall call;
            lock (_calls) _calls.TryGetValue(id, out call);
            if (call == null)
            {
                if (id > _highest && kind != Kind.Cancel) throw Broken("a {0} for call {1}, which was never opened", kind, id);
                return;
            }
            if (kind == Kind.Cancel) call.Lose();
            else if (kind == Kind.Credit && call.Shape == ServerCall.ServerStream) call.Grant(envelope.Items, envelope.Window);
            else throw Broken("the client sent a {0}, but call {1} awaits its answer", kind, id);
        }

        private void OnWhole(ulong id, Envelope envelope)
        {
            if (envelope.CorrelationId != id || envelope.Kind == Kind.Fragment)
                throw Broken("fragments of call {0} hold a {1} of call {2}", id, envelope.Kind, envelope.CorrelationId);
            OnEnvelope(envelope);
        }

        private void OnRequest(Envelope envelope)
        {
            ulong id = envelope.CorrelationId;
            if (envelope.Streams > 3) throw Broken("a request with streams = {0}; known are 0 to 3", envelope.Streams);
            var call = new ServerCall(this, envelope);
            bool isTooMany;
            lock (_calls)
            {
                if (id == GoAway || _calls.ContainsKey(id))
                    throw Broken("a request with the number {0}, which is none or of an open call", id);
                isTooMany = _calls.Count >= MaxCalls;
                _calls.Add(id, call);
            }
            _highest = Math.Max(_highest, id);
            if (isTooMany) call.Fail(new TransportException(WireCode.Busy, MaxCalls + " calls of this client are open; wait for some of them"));
            else if (envelope.Payload.Length > Fragments.Limit) call.Fail(Fragments.TooLarge(envelope.Payload.Length));
            else _rpc.Begin(call);
        }

        private void Refuse(ulong id, TransportException error)
        {
            ServerCall call;
            lock (_calls) _calls.TryGetValue(id, out call);
            if (call != null) call.Fail(error);
            else Post(ServerCall.ErrorEnvelope(id, error));
        }

        private static TransportException Broken(string text, params object[] values)
        {
            return new TransportException(WireCode.RemoteProtocolError,
                string.Format(text, values) + "; the peer is broken or speaks another protocol, connect again");
        }
    }
}
