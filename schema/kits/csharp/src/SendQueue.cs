using System;
using System.Collections.Generic;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>What an engine says to its client: in order, from any thread. What has no room waits here.</summary>
    internal sealed class SendQueue
    {
        // A client that leaves so much unread is not asked what it wants next.
        private const int CongestedBytes = 1 << 20;

        private readonly RingBuffer _ring;
        private readonly Action _wake;
        private readonly Queue<byte[]> _pending = new Queue<byte[]>();
        private int _pendingBytes;
        private bool _closed;

        internal SendQueue(RingBuffer ring, Action wake)
        {
            _ring = ring;
            _wake = wake;
        }

        internal int LargestRecord { get { return _ring.LargestRecord; } }

        internal bool HasPending { get { return Volatile.Read(ref _pendingBytes) > 0; } }

        internal bool IsCongested { get { return Volatile.Read(ref _pendingBytes) > CongestedBytes; } }

        /// <summary>Sends the records, now or as soon as there is room; never waits.</summary>
        internal void Post(IEnumerable<byte[]> records)
        {
            lock (_pending)
            {
                if (_closed) return;
                foreach (byte[] record in records)
                {
                    if (_pendingBytes == 0 && TryWrite(record)) continue;
                    _pending.Enqueue(record);
                    _pendingBytes += record.Length;
                }
                if (_pendingBytes > 0) _wake(); // the engine's thread flushes
            }
        }

        /// <summary>Waits until nothing is pending, then posts the records; returns early when it is over.</summary>
        internal void Send(IEnumerable<byte[]> records, Func<bool> isOver)
        {
            while (HasPending)
            {
                if (isOver()) return;
                Thread.Sleep(1);
            }
            Post(records);
        }

        internal void Flush()
        {
            if (!HasPending) return;
            lock (_pending)
            {
                while (_pending.Count > 0 && TryWrite(_pending.Peek())) _pendingBytes -= _pending.Dequeue().Length;
            }
        }

        /// <summary>Sends nothing any more, and touches no memory of the ring.</summary>
        internal void Close()
        {
            lock (_pending)
            {
                _closed = true;
                _pending.Clear();
                _pendingBytes = 0;
            }
        }

        private bool TryWrite(byte[] record)
        {
            if (_closed) return true;
            try
            {
                return _ring.TryWrite(record);
            }
            catch (TransportException error) when (error.Code == WireCode.RemoteProtocolError)
            {
                _closed = true; // the client broke its position: it gets nothing any more
                Console.Error.WriteLine("lucky_transport: {0}", error.Message);
                return true;
            }
        }
    }
}
