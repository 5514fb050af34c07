using System;
using System.Runtime.InteropServices;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>
    /// One end of a queue of records between one writer and one reader, in memory both have mapped; no lock.
    /// <para>
    /// Byte 0 of its head is the write position, byte 128 the read position, byte 192 is 1 while the writer sleeps until
    /// a record fits; the data begin at byte 256. A record is its length, its bytes, and padding to a multiple of 8. It
    /// is never split: where the next one does not fit before the end, a skip mark says so. The data are written before
    /// the write position says so, and copied out before the read position gives them back.
    /// </para>
    /// Each end keeps its own position to itself and believes the other's only as far as it is possible.
    /// </summary>
    public sealed unsafe class RingBuffer
    {
        private readonly byte* _head;
        private readonly byte* _data;
        private readonly int* _peerPark;
        private readonly uint _size;
        private uint _position;

        /// <summary>
        /// The end of the ring at `head`, with `size` data bytes, a power of two. `peerPark`: the word the reader
        /// sleeps on; null for a reading end. `empty`: it is made empty, which no other end may be using; what stands
        /// there is not read, for a client that left may still write into it.
        /// </summary>
        internal RingBuffer(byte* head, uint size, int* peerPark, bool writes, bool empty = false)
        {
            if (size < SegmentLayout.RingSmallest || (size & (size - 1)) != 0)
                throw new TransportException(WireCode.SegmentError, string.Format(
                    "a ring of {0} data bytes, expected a power of two from {1}", size, SegmentLayout.RingSmallest));
            _head = head;
            _data = head + SegmentLayout.RingHeadBytes;
            _size = size;
            _peerPark = peerPark;
            if (empty)
            {
                Volatile.Write(ref *(uint*)head, 0);
                Volatile.Write(ref *(uint*)(head + SegmentLayout.RingReadPosition), 0);
                Volatile.Write(ref *(uint*)(head + SegmentLayout.RingWriterPark), 0);
                return;
            }
            uint written = Volatile.Read(ref *(uint*)_head);
            uint read = Volatile.Read(ref *(uint*)(_head + SegmentLayout.RingReadPosition));
            Distance(written, read);
            _position = writes ? written : read;
        }

        /// <summary>Bytes of the longest record.</summary>
        public int LargestRecord { get { return (int)(_size / 4 - 4); } }

        /// <summary>How far this end has written or read.</summary>
        public uint Position { get { return _position; } }

        /// <summary>How far the writer has written.</summary>
        public uint Written { get { return Volatile.Read(ref *(uint*)_head); } }

        /// <summary>
        /// Appends a record and wakes the reader; false when there is no room now. Throws SpecError for an empty or too
        /// long record, RemoteProtocolError when the reader's position cannot be.
        /// </summary>
        public bool TryWrite(byte[] record)
        {
            int length = record.Length;
            if (length < 1 || length > LargestRecord)
                throw new TransportException(WireCode.SpecError, string.Format(
                    "a record of {0} bytes, expected 1 to {1} in a ring of {2}; send less at once, or make the engine's "
                    + "command rings larger", length, LargestRecord, _size));
            uint stride = Stride((uint)length);
            uint index = _position & (_size - 1);
            uint skipped = index + stride > _size ? _size - index : 0;
            uint used = Distance(_position, Volatile.Read(ref *(uint*)(_head + SegmentLayout.RingReadPosition)));
            if (_size - used < skipped + stride) return false;
            FaultPoint.Reached("ring.reserve");
            if (skipped != 0)
            {
                *(uint*)(_data + index) = SegmentLayout.RingSkip;
                FaultPoint.Reached("ring.skip");
                index = 0;
            }
            *(uint*)(_data + index) = (uint)length;
            FaultPoint.Reached("ring.length");
            FaultPoint.Copy(record, _data + index + 4, "ring.half");
            _position += skipped + stride;
            if (_peerPark != null) ParkWord.TellCpu(_peerPark);
            FaultPoint.Reached("ring.payload");
            Volatile.Write(ref *(uint*)_head, _position);
            FaultPoint.Reached("ring.published");
            if (_peerPark != null) ParkWord.Wake(_peerPark);
            return true;
        }

        /// <summary>
        /// Copies the oldest record out and gives its room back; null when there is none. Throws RemoteProtocolError
        /// for what no writer that keeps the rules leaves there.
        /// </summary>
        public byte[] TryRead()
        {
            uint published = Distance(Volatile.Read(ref *(uint*)_head), _position);
            if (published == 0) return null;
            uint position = _position;
            uint index = position & (_size - 1);
            uint length = Volatile.Read(ref *(uint*)(_data + index)); // read once: the peer may change it
            if (length == SegmentLayout.RingSkip)
            {
                uint skipped = _size - index;
                if (skipped >= _size / 4 || skipped > published)
                    throw Broken("record at byte {0} skips {1} bytes of {2} published", index, skipped, published);
                position += skipped;
                published -= skipped;
                index = 0;
                if (published == 0) // a writer may publish the skip ahead of the record that needs it
                {
                    GiveBack(position);
                    return null;
                }
                length = Volatile.Read(ref *(uint*)_data);
            }
            if (length == 0 || length > LargestRecord || Stride(length) > published || index + Stride(length) > _size)
                throw Broken("record at byte {0} claims {1} bytes, {2} are published", index, length, published);
            var record = new byte[length];
            Marshal.Copy((IntPtr)(_data + index + 4), record, 0, (int)length);
            GiveBack(position + Stride(length));
            return record;
        }

        private void GiveBack(uint position)
        {
            _position = position;
            FaultPoint.Reached("ring.taken");
            Volatile.Write(ref *(uint*)(_head + SegmentLayout.RingReadPosition), position);
            FaultPoint.Reached("ring.given_back");
            ParkWord.Wake((int*)(_head + SegmentLayout.RingWriterPark));
        }

        private uint Distance(uint write, uint read)
        {
            uint ahead = unchecked(write - read);
            if (ahead > _size || ((write | read) & 7) != 0)
                throw Broken("positions {0} (write) and {1} (read) are {2} apart", write, read, ahead);
            return ahead;
        }

        private static uint Stride(uint length) { return (length + 4 + 7) & ~7u; }

        private TransportException Broken(string text, uint first, uint second, uint third)
        {
            return new TransportException(WireCode.RemoteProtocolError, string.Format(
                "ring of " + _size + " bytes: " + text + "; the peer is broken or speaks another protocol",
                first, second, third));
        }
    }
}
