// A server of @grpc/grpc-js whose messages are bytes; prints its port. Run in a folder that has the package.
const grpc = require(require.resolve('@grpc/grpc-js', { paths: [process.cwd()] }));

const bytes = { requestSerialize: (b) => b, requestDeserialize: (b) => b, responseSerialize: (b) => b, responseDeserialize: (b) => b };
const method = (name, requestStream, responseStream) => ({ path: `/t.Test/${name}`, requestStream, responseStream, ...bytes });

function metadataOf(call) {
  const found = new grpc.Metadata();
  for (const value of call.metadata.get('sent')) found.add('got', value);
  for (const value of call.metadata.get('sent-bin')) found.add('got-bin', value);
  return found;
}

const service = {
  Echo: method('Echo', false, false),
  Count: method('Count', false, true),
  Collect: method('Collect', true, false),
  Chat: method('Chat', true, true),
  Refuse: method('Refuse', false, false),
  Stuck: method('Stuck', false, true),
  Told: method('Told', false, false),
};

const told = [];

const implementation = {
  Echo: (call, callback) => {
    call.sendMetadata(metadataOf(call));
    callback(null, call.request, metadataOf(call));
  },
  Count: (call) => {
    for (let i = 0; i < Number(call.request.toString()); i += 1) call.write(Buffer.from(String(i)));
    call.end(metadataOf(call));
  },
  Collect: (call, callback) => {
    const parts = [];
    call.on('data', (part) => parts.push(part));
    call.on('end', () => callback(null, Buffer.concat(parts)));
  },
  Chat: (call) => {
    call.on('data', (part) => call.write(part));
    call.on('end', () => call.end());
  },
  Refuse: (call, callback) => {
    callback({ code: grpc.status.RESOURCE_EXHAUSTED, details: 'no more', metadata: metadataOf(call) });
  },
  Stuck: (call) => {
    call.on('cancelled', () => told.push('cancelled'));
    call.write(Buffer.from(String(call.getDeadline() === Infinity ? 'no deadline' : call.getDeadline() - Date.now())));
  },
  Told: (call, callback) => callback(null, Buffer.from(told.join(' '))),
};

const server = new grpc.Server({ 'grpc.max_receive_message_length': -1 });
server.addService(service, implementation);
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(port);
});
