using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>
    /// One call as the engine's side answers it. It ends once: by its answer, its caller, its deadline or the end of the
    /// connection; what is done to it afterwards has no effect.
    /// </summary>
    internal sealed class ServerCall
    {
        internal const uint ServerStream = 2;

        // A wait looks this often whether the call is over, and an image stream whether a slot was given back.
        private const int SliceMs = 100, ImagesMs = 1;

        private readonly ServerCalls _calls;
        private readonly long _start = Stopwatch.GetTimestamp();
        private readonly double _timeoutSeconds;
        private ulong _grantedItems, _grantedBytes, _spentItems, _spentBytes;
        private bool _ended;
        private ImageSink _images;

        internal ServerCall(ServerCalls calls, Envelope request)
        {
            _calls = calls;
            Id = request.CorrelationId;
            Method = request.Method;
            Path = request.Path;
            Shape = request.Streams;
            Payload = request.Payload;
            _timeoutSeconds = request.DeadlineNs / 1e9;
            _grantedItems = request.Items;
            _grantedBytes = request.Window;
        }

        internal ulong Id { get; private set; }

        internal uint Method { get; private set; }

        internal string Path { get; private set; }

        /// <summary>The method's full name, for texts.</summary>
        internal string Name
        {
            get
            {
                string name;
                return Path.Length > 0 ? Path : Methods.Names.TryGetValue(Method, out name) ? name : "method " + Method;
            }
        }

        /// <summary>Bit 0: the caller sends a stream; bit 1: it takes one.</summary>
        internal uint Shape { get; private set; }

        internal byte[] Payload { get; private set; }

        /// <summary>Items that the stream skipped so far.</summary>
        internal uint Dropped { get; set; }

        internal bool IsOver
        {
            get
            {
                lock (this) return _ended || IsLate;
            }
        }

        private bool IsLate
        {
            get { return _timeoutSeconds > 0 && (Stopwatch.GetTimestamp() - _start) / (double)Stopwatch.Frequency >= _timeoutSeconds; }
        }

        // -- the thread that answers ---------------------------------------------------------------------------------

        /// <summary>Waits until the caller can take one more item; false when the call is over.</summary>
        internal bool WaitForCredit()
        {
            lock (this)
            {
                while (!_ended && !IsLate && (_spentItems >= _grantedItems || _spentBytes >= _grantedBytes))
                    Monitor.Wait(this, SliceMs);
            }
            while (_images != null && !_images.HasRoom && !IsOver) Thread.Sleep(ImagesMs);
            return !IsOver;
        }

        /// <summary>Sleeps for so long; false at once when the call is over.</summary>
        internal bool Wait(double seconds)
        {
            long until = Stopwatch.GetTimestamp() + (long)(seconds * Stopwatch.Frequency);
            lock (this)
            {
                while (!_ended && !IsLate)
                {
                    double left = (until - Stopwatch.GetTimestamp()) * 1000.0 / Stopwatch.Frequency;
                    if (left <= 0) return true;
                    Monitor.Wait(this, Math.Max(1, (int)Math.Min(left, SliceMs)));
                }
            }
            return false;
        }

        /// <summary>Sends an item, for which there is credit; waits for room in the ring.</summary>
        internal void Send(Message item)
        {
            if (item == null) throw new InvalidOperationException("a stream's item is null");
            Envelope envelope = Wrap(Kind.StreamItem, item, _images ?? (_images = _calls.OpenImages()));
            lock (this)
            {
                if (_ended) return;
                _spentItems++;
                _spentBytes += (ulong)envelope.Payload.Length;
            }
            _calls.Send(envelope, () => IsOver);
        }

        /// <summary>
        /// Ends the call with its response, a stream with null. A stream that ends because its deadline has passed says
        /// nothing: its caller ends it by its own clock.
        /// </summary>
        internal void Finish(Message response)
        {
            if (response == null && IsLate)
            {
                End();
                return;
            }
            if ((Shape & ServerStream) == 0 && response == null) throw new InvalidOperationException("the response is null");
            Envelope envelope = response == null
                ? new Envelope { CorrelationId = Id, Kind = Kind.End, Dropped = Dropped }
                : Wrap(Kind.Response, response, _calls.SharedImages);
            if (End()) _calls.Post(envelope);
            else _calls.SharedImages.TakeBack(envelope.Images);
        }

        /// <summary>Ends the call with an error; a caller whose deadline has passed ends it by its own clock.</summary>
        internal void Fail(TransportException error)
        {
            if (End()) _calls.Post(ErrorEnvelope(Id, error, Dropped));
        }

        /// <summary>The images of an ended stream: at once if the client has given it up, else once it has read them.</summary>
        internal void EndImages()
        {
            if (_images != null) _images.End(_wasLost);
        }

        private Envelope Wrap(Kind kind, Message message, ImageSink sink)
        {
            var envelope = new Envelope { CorrelationId = Id, Kind = kind, Dropped = Dropped };
            var frames = new List<ImageFrame>();
            message.FindImages(frames);
            if (frames.Count == 0)
            {
                envelope.Payload = message.Encode();
                return envelope;
            }
            var elsewhere = new List<byte[]>();
            envelope.Images = frames.Select(frame => sink.Put(frame.Data)).ToArray();
            for (int i = 0; i < frames.Count; i++)
                if (envelope.Images[i].File != 0) elsewhere.Add(frames[i].Data);
            envelope.Payload = message.Encode(0, elsewhere);
            if (elsewhere.Count == 0) envelope.Images = new ImagePlace[0];
            return envelope;
        }

        // -- the caller's side, on the engine's thread ---------------------------------------------------------------

        internal void Grant(uint items, uint window)
        {
            lock (this)
            {
                _grantedItems += items;
                _grantedBytes += window;
                Monitor.PulseAll(this);
            }
        }

        private bool _wasLost;

        /// <summary>Ends the call without an answer; false when it had ended.</summary>
        internal bool Lose()
        {
            _wasLost = true;
            return End();
        }

        private bool End()
        {
            lock (this)
            {
                if (_ended) return false;
                _ended = true;
                Monitor.PulseAll(this);
            }
            _calls.Forget(Id);
            return true;
        }

        internal static Envelope ErrorEnvelope(ulong id, TransportException error, uint dropped = 0)
        {
            return new Envelope
            {
                CorrelationId = id, Kind = Kind.Error, Status = (uint)error.Code, Details = error.Message,
                Dropped = dropped,
            };
        }
    }
}
