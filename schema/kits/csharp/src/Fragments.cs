using System.Collections.Generic;
using System.IO;

namespace LuckyTransport
{
    /// <summary>Envelopes longer than the longest record: cut into fragments, and put together again.</summary>
    internal sealed class Fragments
    {
        /// <summary>Bytes of the longest message that is taken: gRPC's default, and the Python side's.</summary>
        internal const int Limit = 4 << 20;

        // What an envelope may have around its message; what all unfinished messages of a client may take together.
        private const int Around = 64 << 10, Budget = 64 << 20;

        private static readonly int Overhead = new Envelope
        {
            CorrelationId = ulong.MaxValue, Kind = Kind.Fragment, Window = uint.MaxValue, Offset = ulong.MaxValue,
            Total = ulong.MaxValue, Payload = new byte[1],
        }.Encode(4).Length + 8;

        private readonly Dictionary<ulong, MemoryStream> _parts = new Dictionary<ulong, MemoryStream>();
        private readonly Dictionary<ulong, ulong> _totals = new Dictionary<ulong, ulong>();
        private long _held;

        internal static TransportException TooLarge(long length)
        {
            return new TransportException(WireCode.SpecError, string.Format(
                "a message of {0} bytes, the limit is {1}; send less", length, Limit));
        }

        /// <summary>The records, `largest` bytes at most, that carry an envelope; itself when it is short enough.</summary>
        internal static IEnumerable<byte[]> Cut(byte[] record, Envelope envelope, int largest)
        {
            if (record.Length <= largest) return new[] { record };
            if (largest <= Overhead)
                throw new TransportException(WireCode.SpecError, string.Format(
                    "records of {0} bytes are too short for fragments; make the rings larger", largest));
            return Pieces(record, envelope, largest - Overhead);
        }

        private static IEnumerable<byte[]> Pieces(byte[] record, Envelope envelope, int step)
        {
            for (int offset = 0; offset < record.Length; offset += step)
            {
                var piece = new byte[System.Math.Min(step, record.Length - offset)];
                System.Buffer.BlockCopy(record, offset, piece, 0, piece.Length);
                yield return new Envelope
                {
                    CorrelationId = envelope.CorrelationId, Kind = Kind.Fragment, Payload = piece,
                    Window = (uint)envelope.Payload.Length, Offset = (ulong)offset, Total = (ulong)record.Length,
                }.Encode(4);
            }
        }

        /// <summary>
        /// Takes one fragment; the whole record after its last one, else null. A message that is too long has a refusal
        /// and is forgotten. Throws RemoteProtocolError for pieces that do not fit together.
        /// </summary>
        internal byte[] Add(Envelope fragment, out TransportException refusal)
        {
            ulong call = fragment.CorrelationId;
            byte[] piece = fragment.Payload;
            refusal = null;
            MemoryStream part;
            if (!_parts.TryGetValue(call, out part))
            {
                if (fragment.Offset != 0) return null; // the rest of a message that was refused or has ended
                ulong around = fragment.Total > Around ? fragment.Total - Around : 0;
                ulong length = System.Math.Max(fragment.Window, around);
                if (length > Limit)
                {
                    refusal = TooLarge((long)System.Math.Min(length, long.MaxValue));
                    return null;
                }
                _parts[call] = part = new MemoryStream();
                _totals[call] = fragment.Total;
            }
            ulong total = _totals[call], at = (ulong)part.Length;
            if (fragment.Total != total || fragment.Offset != at || piece.Length == 0 || at + (ulong)piece.Length > total)
                throw new TransportException(WireCode.RemoteProtocolError, string.Format(
                    "fragment of call {0}: {1} bytes at {2} of {3}, expected some at {4} of {5}; the peer is broken",
                    call, piece.Length, fragment.Offset, fragment.Total, at, total));
            if (_held + piece.Length > Budget)
            {
                Drop(call);
                refusal = new TransportException(WireCode.SpecError, string.Format(
                    "unfinished messages of this client take more than {0} bytes together; send fewer at once", Budget));
                return null;
            }
            part.Write(piece, 0, piece.Length);
            _held += piece.Length;
            if ((ulong)part.Length < total) return null;
            Drop(call);
            return part.ToArray();
        }

        /// <summary>Forgets what came of the call's message.</summary>
        internal void Drop(ulong call)
        {
            MemoryStream part;
            if (!_parts.TryGetValue(call, out part)) return;
            _held -= part.Length;
            _parts.Remove(call);
            _totals.Remove(call);
        }
    }
}
