using System;

namespace LuckyTransport
{
    /// <summary>
    /// An error of the kit, or one that a handler throws for its caller: it reaches a Python client as the class of
    /// lucky_transport.errors that <see cref="Code"/> names, with the same text. Any other exception of a handler or a
    /// step reaches it as EngineFailed.
    /// </summary>
    public sealed class TransportException : Exception
    {
        public TransportException(WireCode code, string message) : base(message)
        {
            Code = code;
        }

        /// <summary>The class of the error.</summary>
        public WireCode Code { get; private set; }

        /// <summary>The error itself when it is one of these, else EngineFailed with its class and text.</summary>
        internal static TransportException Of(Exception error, string engine, string what)
        {
            return error as TransportException ?? new TransportException(WireCode.EngineFailed, string.Format(
                "engine '{0}' failed in {1}: {2}: {3}", engine, what, error.GetType().Name, error.Message));
        }
    }
}
