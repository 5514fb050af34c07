using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;

namespace LuckyTransport
{
    /// <summary>Writes a FlatBuffers buffer from front to back: a table, then what its fields point to.</summary>
    internal sealed class ByteWriter
    {
        private readonly int _prefix;
        private readonly ICollection<byte[]> _elsewhere;
        private byte[] _data = new byte[128];
        private int _length;

        internal ByteWriter(int prefixBytes, ICollection<byte[]> elsewhere)
        {
            _prefix = prefixBytes;
            _elsewhere = elsewhere;
        }

        internal byte[] Root(Message message)
        {
            Grow(4);
            PutUInt32(0, (uint)Table(message));
            Array.Resize(ref _data, _length);
            return _data;
        }

        /// <summary>True where the bytes of this image are not written, because they lie in a file of images.</summary>
        internal bool IsElsewhere(byte[] image) { return _elsewhere != null && _elsewhere.Contains(image); }

        internal void PutBool(int at, bool value) { _data[at] = value ? (byte)1 : (byte)0; }

        internal void PutUInt16(int at, int value)
        {
            _data[at] = (byte)value;
            _data[at + 1] = (byte)(value >> 8);
        }

        internal void PutUInt32(int at, uint value)
        {
            for (int i = 0; i < 4; i++) _data[at + i] = (byte)(value >> 8 * i);
        }

        internal void PutUInt64(int at, ulong value)
        {
            for (int i = 0; i < 8; i++) _data[at + i] = (byte)(value >> 8 * i);
        }

        internal void PutInt32(int at, int value) { PutUInt32(at, unchecked((uint)value)); }

        internal void PutSingle(int at, float value) { Buffer.BlockCopy(new[] { value }, 0, _data, at, 4); }

        internal void PutDouble(int at, double value) { Buffer.BlockCopy(new[] { value }, 0, _data, at, 8); }

        /// <summary>Returns where the next `count` bytes, all 0, begin.</summary>
        internal int Grow(int count)
        {
            int at = _length;
            _length = checked(_length + count);
            if (_length > _data.Length) Array.Resize(ref _data, Math.Max(_length, (int)Math.Min(2L * _data.Length, int.MaxValue - 64)));
            return at;
        }

        // the next place whose address, and that of what follows `before` bytes later, is a multiple
        private void Align(int alignment, int before)
        {
            while ((_prefix + _length + before) % alignment != 0) Grow(1);
        }

        internal int Table(Message message)
        {
            var table = new TableWriter(this);
            message.Write(table);
            return Table(table);
        }

        internal int Table(TableWriter table)
        {
            int vtableBytes = 4 + 2 * table.Slots;
            Align(4, vtableBytes % 4);
            int vtable = Grow(vtableBytes), start = Grow(4);
            foreach (TableWriter.Field field in table.Fields)
            {
                Align(field.Alignment, 0);
                field.At = Grow(field.Size);
                PutUInt16(vtable + 4 + 2 * field.Slot, field.At - start);
            }
            PutUInt16(vtable, vtableBytes);
            PutUInt16(vtable + 2, _length - start);
            PutInt32(start, start - vtable);
            foreach (TableWriter.Field field in table.Fields)
            {
                if (field.Put != null) field.Put(field.At);
                else PutUInt32(field.At, (uint)(field.Child() - field.At));
            }
            return start;
        }

        internal int Text(string text)
        {
            byte[] utf8 = Encoding.UTF8.GetBytes(text); // what it cannot encode is replaced
            int at = Elements(utf8, 1, 4);
            Grow(1);
            return at;
        }

        /// <summary>Writes a vector of numbers whose elements begin at a multiple of `alignment`.</summary>
        internal int Elements(Array values, int width, int alignment)
        {
            Align(Math.Max(alignment, 4), 4);
            int at = Grow(4);
            PutUInt32(at, (uint)values.Length);
            int start = Grow(checked(values.Length * width));
            Buffer.BlockCopy(values, 0, _data, start, values.Length * width);
            return at;
        }

        internal int Each<T>(T[] values, Func<T, int> write)
        {
            Align(4, 0);
            int at = Grow(4), start = Grow(checked(4 * values.Length));
            PutUInt32(at, (uint)values.Length);
            for (int i = 0; i < values.Length; i++)
            {
                int place = start + 4 * i;
                PutUInt32(place, (uint)(write(values[i]) - place));
            }
            return at;
        }

        internal int Structs<T>(T[] values) where T : Struct
        {
            Align(Math.Max(values[0].Alignment, 4), 4);
            int at = Grow(4), size = values[0].Size, start = Grow(checked(size * values.Length));
            PutUInt32(at, (uint)values.Length);
            for (int i = 0; i < values.Length; i++) values[i].Write(this, start + size * i);
            return at;
        }
    }

    /// <summary>Takes the fields of one table; what has its default is left out.</summary>
    internal sealed class TableWriter
    {
        /// <summary>A field: `Put` writes it in place, `Child` writes what it points to.</summary>
        internal sealed class Field
        {
            internal int Slot, Size, Alignment, At;
            internal Action<int> Put;
            internal Func<int> Child;
        }

        private readonly ByteWriter _bytes;
        private readonly List<Field> _fields = new List<Field>();

        internal TableWriter(ByteWriter bytes) { _bytes = bytes; }

        internal int Slots { get { return _fields.Count == 0 ? 0 : _fields.Max(field => field.Slot) + 1; } }

        /// <summary>The fields that are there, the widest first, so that there are few gaps.</summary>
        internal IEnumerable<Field> Fields { get { return _fields.OrderByDescending(field => field.Alignment); } }

        private void Add(int slot, int size, int alignment, Action<int> put)
        {
            _fields.Add(new Field { Slot = slot, Size = size, Alignment = alignment, Put = put });
        }

        private void Add(int slot, Func<int> child)
        {
            _fields.Add(new Field { Slot = slot, Size = 4, Alignment = 4, Child = child });
        }

        internal void Bool(int slot, bool value) { if (value) BoolOrNull(slot, value); }

        internal void Int32(int slot, int value) { if (value != 0) Int32OrNull(slot, value); }

        internal void UInt32(int slot, uint value) { if (value != 0) UInt32OrNull(slot, value); }

        internal void UInt64(int slot, ulong value) { if (value != 0) UInt64OrNull(slot, value); }

        // -0.0 is not the default

        internal void Single(int slot, float value)
        {
            if (BitConverter.DoubleToInt64Bits(value) != 0) SingleOrNull(slot, value);
        }

        internal void Double(int slot, double value)
        {
            if (BitConverter.DoubleToInt64Bits(value) != 0) DoubleOrNull(slot, value);
        }

        internal void BoolOrNull(int slot, bool? value)
        {
            if (value.HasValue) Add(slot, 1, 1, at => _bytes.PutBool(at, value.Value));
        }

        internal void Int32OrNull(int slot, int? value)
        {
            if (value.HasValue) Add(slot, 4, 4, at => _bytes.PutInt32(at, value.Value));
        }

        internal void UInt32OrNull(int slot, uint? value)
        {
            if (value.HasValue) Add(slot, 4, 4, at => _bytes.PutUInt32(at, value.Value));
        }

        internal void UInt64OrNull(int slot, ulong? value)
        {
            if (value.HasValue) Add(slot, 8, 8, at => _bytes.PutUInt64(at, value.Value));
        }

        internal void SingleOrNull(int slot, float? value)
        {
            if (value.HasValue) Add(slot, 4, 4, at => _bytes.PutSingle(at, value.Value));
        }

        internal void DoubleOrNull(int slot, double? value)
        {
            if (value.HasValue) Add(slot, 8, 8, at => _bytes.PutDouble(at, value.Value));
        }

        internal void Text(int slot, string value)
        {
            if (!string.IsNullOrEmpty(value)) Add(slot, () => _bytes.Text(value));
        }

        /// <summary>A vector of bytes; it may be a buffer of its own, so it begins at a multiple of 8.</summary>
        internal void Bytes(int slot, byte[] value) { Numbers(slot, value, 1, 8); }

        internal void Image(int slot, byte[] value)
        {
            if (!_bytes.IsElsewhere(value)) Bytes(slot, value);
        }

        internal void Int32List(int slot, int[] value) { Numbers(slot, value, 4, 4); }

        internal void UInt32List(int slot, uint[] value) { Numbers(slot, value, 4, 4); }

        internal void UInt64List(int slot, ulong[] value) { Numbers(slot, value, 8, 8); }

        internal void SingleList(int slot, float[] value) { Numbers(slot, value, 4, 4); }

        private void Numbers(int slot, Array value, int width, int alignment)
        {
            if (value != null && value.Length > 0) Add(slot, () => _bytes.Elements(value, width, alignment));
        }

        internal void TextList(int slot, string[] value)
        {
            if (value != null && value.Length > 0) Add(slot, () => _bytes.Each(value, one => _bytes.Text(one ?? "")));
        }

        internal void Table(int slot, Message value)
        {
            if (value != null) Add(slot, () => _bytes.Table(value));
        }

        internal void TableList<T>(int slot, T[] value) where T : Message
        {
            if (value != null && value.Length > 0) Add(slot, () => _bytes.Each(value, _bytes.Table));
        }

        internal void Struct(int slot, Struct value)
        {
            if (value != null) Add(slot, value.Size, value.Alignment, at => value.Write(_bytes, at));
        }

        internal void StructList<T>(int slot, T[] value) where T : Struct
        {
            if (value != null && value.Length > 0) Add(slot, () => _bytes.Structs(value));
        }

        internal void SingleMap(int slot, Dictionary<string, float> map)
        {
            Map(slot, map, (entry, value) => entry.SingleOrNull(1, value));
        }

        internal void BoolMap(int slot, Dictionary<string, bool> map)
        {
            Map(slot, map, (entry, value) => entry.BoolOrNull(1, value));
        }

        internal void TextMap(int slot, Dictionary<string, string> map)
        {
            Map(slot, map, (entry, value) => entry.Add(1, () => _bytes.Text(value ?? "")));
        }

        internal void TableMap<T>(int slot, Dictionary<string, T> map) where T : Message
        {
            Map(slot, map, (entry, value) => entry.Table(1, value));
        }

        // A map is a vector of entries, sorted by the UTF-8 of their keys; keys and values are always written.
        private void Map<T>(int slot, Dictionary<string, T> map, Action<TableWriter, T> put)
        {
            if (map == null || map.Count == 0) return;
            string[] keys = map.Keys.OrderBy(key => Encoding.UTF8.GetBytes(key), new ByteOrder()).ToArray();
            Add(slot, () => _bytes.Each(keys, key =>
            {
                var entry = new TableWriter(_bytes);
                entry.Add(0, () => _bytes.Text(key));
                put(entry, map[key]);
                return _bytes.Table(entry);
            }));
        }

        private sealed class ByteOrder : IComparer<byte[]>
        {
            public int Compare(byte[] one, byte[] other)
            {
                for (int i = 0; i < one.Length && i < other.Length; i++)
                    if (one[i] != other[i]) return one[i] - other[i];
                return one.Length - other.Length;
            }
        }
    }
}
