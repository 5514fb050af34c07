using System;
using System.Collections.Generic;
using System.Text;

namespace LuckyTransport
{
    /// <summary>
    /// A FlatBuffers buffer that a peer wrote. No byte is read before its place was checked; what is read in total is
    /// limited by the buffer's size, because offsets may share what they point to.
    /// </summary>
    internal sealed class ByteReader
    {
        // As lucky_transport/codec/reader.py: a buffer of n bytes may unfold to 8 n + 64 KiB.
        private const int Allowance = 1 << 16, Unfolding = 8;

        private static readonly UTF8Encoding Utf8 = new UTF8Encoding(false, true);

        private readonly string _name;
        private readonly byte[] _data;
        private long _budget;
        private int _depth;

        internal ByteReader(string name, byte[] data)
        {
            _name = name;
            _data = data;
            _budget = Allowance + (long)Unfolding * data.Length;
        }

        internal TransportException Error(string text, params object[] values)
        {
            return new TransportException(WireCode.RemoteProtocolError, string.Format(
                "malformed {0} in {1} bytes: {2}; the peer is broken or speaks another protocol",
                _name, _data.Length, string.Format(text, values)));
        }

        internal TableReader Root()
        {
            if (_data.Length < 8) throw Error("the smallest buffer has 8 bytes");
            return new TableReader(this, Follow(0));
        }

        // The place of these was checked.

        internal bool Bool(int at) { return _data[at] != 0; }

        internal ushort UInt16(int at) { return BitConverter.ToUInt16(_data, at); }

        internal int Int32(int at) { return BitConverter.ToInt32(_data, at); }

        internal uint UInt32(int at) { return BitConverter.ToUInt32(_data, at); }

        internal ulong UInt64(int at) { return BitConverter.ToUInt64(_data, at); }

        internal float Single(int at) { return BitConverter.ToSingle(_data, at); }

        internal double Double(int at) { return BitConverter.ToDouble(_data, at); }

        /// <summary>Where the offset at `at` points to: inside the buffer and a multiple of 4.</summary>
        internal int Follow(int at)
        {
            uint offset = UInt32(at);
            long target = (long)at + offset;
            if (offset == 0 || (target & 3) != 0 || target + 4 > _data.Length)
                throw Error("offset {0} at byte {1} points to byte {2}", offset, at, target);
            return (int)target;
        }

        internal void Spend(long count)
        {
            _budget -= count;
            if (_budget < 0) throw Error("the content unfolds to more than {0} times the buffer", Unfolding);
        }

        /// <summary>Checks a table; where its vtable lies, how long that is, and how long the table is.</summary>
        internal int VTable(int table, out int length, out int size)
        {
            long at = (long)table - Int32(table);
            if ((at & 1) != 0 || at < 0 || at > _data.Length - 4)
                throw Error("the table at byte {0} has its vtable at byte {1}", table, at);
            length = UInt16((int)at);
            size = UInt16((int)at + 2);
            if (length < 4 || (length & 1) != 0 || at + length > _data.Length)
                throw Error("the vtable at byte {0} claims {1} bytes", at, length);
            if (size < 4 || table + (long)size > _data.Length)
                throw Error("the table at byte {0} claims {1} bytes", table, size);
            Spend(size);
            return (int)at;
        }

        /// <summary>Checks the vector at `at`; where its elements begin and how many there are.</summary>
        internal int Elements(int at, int width, out int count)
        {
            long claimed = UInt32(at), start = (long)at + 4;
            if (start + claimed * width > _data.Length)
                throw Error("the vector at byte {0} claims {1} elements of {2} bytes", at, claimed, width);
            Spend(4 + claimed * width);
            count = (int)claimed;
            return (int)start;
        }

        internal T[] Numbers<T>(int at, int width)
        {
            int count, start = Elements(at, width, out count);
            var values = new T[count];
            Buffer.BlockCopy(_data, start, values, 0, count * width);
            return values;
        }

        internal string Text(int at)
        {
            int count, start = Elements(at, 1, out count);
            if (start + count >= _data.Length || _data[start + count] != 0)
                throw Error("the string of {0} bytes at byte {1} has no terminating zero", count, at);
            try
            {
                return Utf8.GetString(_data, start, count);
            }
            catch (ArgumentException)
            {
                throw Error("the string of {0} bytes at byte {1} is not UTF-8", count, at);
            }
        }

        internal T Table<T>(int at) where T : Message, new()
        {
            if (++_depth > MessageLimits.Depth) throw Error("tables are nested deeper than {0}", MessageLimits.Depth);
            var message = new T();
            message.Read(new TableReader(this, at));
            _depth--;
            return message;
        }

        internal T Struct<T>(int at) where T : Struct, new()
        {
            var value = new T();
            value.Read(this, at);
            return value;
        }

        internal T[] Each<T>(int at, Func<int, T> read)
        {
            int count, start = Elements(at, 4, out count);
            var values = new T[count];
            for (int i = 0; i < count; i++) values[i] = read(Follow(start + 4 * i));
            return values;
        }
    }

    /// <summary>One table of a buffer; a field that is absent, or of a newer peer, has its default.</summary>
    internal struct TableReader
    {
        private readonly ByteReader _bytes;
        private readonly int _table, _vtable, _length, _size;
        private readonly List<int> _taken; // first byte and end of each field read so far

        internal TableReader(ByteReader bytes, int at)
        {
            _bytes = bytes;
            _table = at;
            _taken = new List<int>();
            _vtable = bytes.VTable(at, out _length, out _size);
        }

        // 0 for an absent field
        private int Place(int slot, int width, int alignment)
        {
            int entry = 4 + 2 * slot;
            if (entry + 2 > _length) return 0;
            int offset = _bytes.UInt16(_vtable + entry);
            if (offset == 0) return 0;
            bool fits = offset >= 4 && offset + width <= _size && (offset & (Math.Min(alignment, 4) - 1)) == 0;
            for (int i = 0; i < _taken.Count; i += 2) fits &= offset >= _taken[i + 1] || offset + width <= _taken[i];
            if (!fits)
                throw _bytes.Error("field {0} of the table at byte {1} lies at {2} of {3} bytes", slot, _table, offset, _size);
            _taken.Add(offset);
            _taken.Add(offset + width);
            return _table + offset;
        }

        private int Target(int slot)
        {
            int at = Place(slot, 4, 4);
            return at == 0 ? 0 : _bytes.Follow(at);
        }

        internal bool Bool(int slot) { return BoolOrNull(slot) ?? false; }

        internal int Int32(int slot) { return Int32OrNull(slot) ?? 0; }

        internal uint UInt32(int slot) { return UInt32OrNull(slot) ?? 0; }

        internal ulong UInt64(int slot) { return UInt64OrNull(slot) ?? 0; }

        internal float Single(int slot) { return SingleOrNull(slot) ?? 0; }

        internal double Double(int slot) { return DoubleOrNull(slot) ?? 0; }

        internal bool? BoolOrNull(int slot)
        {
            int at = Place(slot, 1, 1);
            return at == 0 ? (bool?)null : _bytes.Bool(at);
        }

        internal int? Int32OrNull(int slot)
        {
            int at = Place(slot, 4, 4);
            return at == 0 ? (int?)null : _bytes.Int32(at);
        }

        internal uint? UInt32OrNull(int slot)
        {
            int at = Place(slot, 4, 4);
            return at == 0 ? (uint?)null : _bytes.UInt32(at);
        }

        internal ulong? UInt64OrNull(int slot)
        {
            int at = Place(slot, 8, 8);
            return at == 0 ? (ulong?)null : _bytes.UInt64(at);
        }

        internal float? SingleOrNull(int slot)
        {
            int at = Place(slot, 4, 4);
            return at == 0 ? (float?)null : _bytes.Single(at);
        }

        internal double? DoubleOrNull(int slot)
        {
            int at = Place(slot, 8, 8);
            return at == 0 ? (double?)null : _bytes.Double(at);
        }

        internal string Text(int slot)
        {
            int at = Target(slot);
            return at == 0 ? "" : _bytes.Text(at);
        }

        internal byte[] Bytes(int slot) { return Numbers<byte>(slot, 1); }

        internal int[] Int32List(int slot) { return Numbers<int>(slot, 4); }

        internal uint[] UInt32List(int slot) { return Numbers<uint>(slot, 4); }

        internal ulong[] UInt64List(int slot) { return Numbers<ulong>(slot, 8); }

        internal float[] SingleList(int slot) { return Numbers<float>(slot, 4); }

        private T[] Numbers<T>(int slot, int width)
        {
            int at = Target(slot);
            return at == 0 ? new T[0] : _bytes.Numbers<T>(at, width);
        }

        internal string[] TextList(int slot)
        {
            int at = Target(slot);
            return at == 0 ? new string[0] : _bytes.Each(at, _bytes.Text);
        }

        internal T Table<T>(int slot) where T : Message, new()
        {
            int at = Target(slot);
            return at == 0 ? null : _bytes.Table<T>(at);
        }

        internal T[] TableList<T>(int slot) where T : Message, new()
        {
            int at = Target(slot);
            return at == 0 ? new T[0] : _bytes.Each(at, _bytes.Table<T>);
        }

        internal T Struct<T>(int slot) where T : Struct, new()
        {
            var layout = new T();
            int at = Place(slot, layout.Size, layout.Alignment);
            return at == 0 ? null : _bytes.Struct<T>(at);
        }

        internal T[] StructList<T>(int slot) where T : Struct, new()
        {
            int target = Target(slot);
            if (target == 0) return new T[0];
            int size = new T().Size, count, start = _bytes.Elements(target, size, out count);
            var values = new T[count];
            for (int i = 0; i < count; i++) values[i] = _bytes.Struct<T>(start + i * size);
            return values;
        }

        internal Dictionary<string, float> SingleMap(int slot) { return Map<float>(slot, entry => entry.Single(1)); }

        internal Dictionary<string, bool> BoolMap(int slot) { return Map<bool>(slot, entry => entry.Bool(1)); }

        internal Dictionary<string, string> TextMap(int slot) { return Map<string>(slot, entry => entry.Text(1)); }

        internal Dictionary<string, T> TableMap<T>(int slot) where T : Message, new()
        {
            return Map<T>(slot, entry => entry.Table<T>(1) ?? new T());
        }

        private Dictionary<string, T> Map<T>(int slot, Func<TableReader, T> value)
        {
            var map = new Dictionary<string, T>(StringComparer.Ordinal);
            int at = Target(slot);
            if (at == 0) return map;
            ByteReader bytes = _bytes;
            foreach (TableReader entry in bytes.Each(at, target => new TableReader(bytes, target)))
            {
                string key = entry.Text(0);
                if (map.ContainsKey(key)) throw bytes.Error("the key {0} occurs twice in a map", key);
                map.Add(key, value(entry));
            }
            return map;
        }
    }
}
